# SPDX-License-Identifier: GPL-2.0-or-later
"""The command sluice: its subcommands, its common options, its exit code."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice import VERSION
from sluice.errors import DENIED, EXIT_CODES, FINE, INTERRUPTED, NO, USAGE
from sluice.errors import NetlinkError, SluiceError, quoted
from sluice.output import CLOSED, complain, prepare, say_json

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMON_WITH_VALUE = ("--netns",)
FIRST = ("--help", "-h", "--version", "-V", "help")
# In the order of use; each subcommand is the function of its name in a module,
# which is imported only when it is needed: most of the run time is start-up.
MODULES = {
    "status": "status",
    "on": "switch",
    "off": "switch",
    "forget": "switch",
    "apply": "apply",
    "config": "configcheck",
    "watch": "watch",
    "monitor": "monitor",
    "doctor": "doctor",
    "bench": "bench.command",
    "install": "install",
    "uninstall": "install",
    "metrics": "metrics",
    "completion": "completion",
}
SUMMARIES = {
    "status": "Show the devices in a table, or details of those named.",
    "on": "Switch devices on, now and when they appear again.",
    "off": "Switch devices off, now and when they appear again.",
    "forget": "Remove rules from /etc/sluice.conf.",
    "apply": "Load the files of the rules into the module.",
    "config": "Check the files of the rules, or show the rules in order.",
    "watch": "Show each queue live, and totals; q or Ctrl-C ends it.",
    "monitor": "Print events: first stops, stalls, devices with noqueue.",
    "doctor": "Find problems and print the fix.",
    "bench": "Compare stock and sluice on this machine, in half a minute.",
    "install": "Build the module through DKMS, load it now and at boot.",
    "uninstall": "Remove all that install wrote; stock behaviour returns.",
    "metrics": "Print all counters for Prometheus.",
    "completion": "Print completion code for a shell.",
}


IN_TREE = (Path(__file__).resolve().parents[1] / "packaging/install").exists()
# A package manager installs and removes what it owns.
if not IN_TREE:
    del MODULES["install"], MODULES["uninstall"]


def _read_names() -> list[str]:
    """The names of the devices; none where they cannot be read."""
    from sluice import devices

    with contextlib.suppress(Exception):
        return [one.name for one in devices.read_machine(with_owners=False).views]
    return []


def _with_guess(reason: str, word: str, known: Sequence[str], prefix: str = "") -> str:
    from sluice import devices

    guess = devices.suggestion(word, known, prefix)
    return f"{reason} ({guess})" if guess else reason


class Sluice(click.Group):
    """No subcommand means status; common options may stand before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = self._word_at(args)
        if ctx.resilient_parsing and args[-1:] != ["--netns"]:
            pass  # a shell completes: the word may become a subcommand
        elif at is not None and args[at] == "help":
            args = [*args[at + 1 : at + 2], "--help"]
        elif args and args[0] in FIRST:
            pass
        elif at is None or (args[at] not in MODULES and self._is_name(ctx, args[at])):
            if at is not None:
                self._check_order(ctx, args[at : at + 2])
            args = ["status", *args]
        elif at:
            args = [args[at], *args[:at], *args[at + 1 :]]
        return super().parse_args(ctx, args)

    def _check_order(self, ctx: click.Context, words: list[str]) -> None:
        """Refuse `sluice NAME off`, unless a device is called so."""
        if words[1:] and words[1] in MODULES and words[1] not in _read_names():
            import shlex

            right = shlex.join(["sluice", words[1], words[0]])
            ctx.fail(f"the subcommand comes first: {right}")

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            command = self.get_command(ctx, name) if name else None
            if error.ctx is None and command:  # click's parser does not tell
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise

    def _is_name(self, ctx: click.Context, word: str) -> bool:
        """Whether `sluice WORD` is `sluice status WORD`, and no misspelt subcommand."""
        if ctx.resilient_parsing:
            return False
        if word.startswith("-"):
            return True
        return any(fnmatchcase(name, word) for name in _read_names())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in MODULES:
            import glob

            from sluice import config

            if reason := config.unmatchable(args[0]):
                ctx.fail(reason)
            reason = f"{quoted(args[0])} is not a subcommand or a device"
            names = [glob.escape(name) for name in _read_names()]
            ctx.fail(_with_guess(reason, args[0], [*MODULES, *names]))
        return super().resolve_command(ctx, args)

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [name for name in MODULES if name.startswith(incomplete)]
        found = [CompletionItem(name, help=SUMMARIES[name]) for name in names]
        found += click.Command.shell_complete(self, ctx, incomplete)
        if not incomplete.startswith("-"):
            if not incomplete:
                return found
            from sluice import options  # sluice NAME

            return found + options.complete_device(ctx, None, incomplete)
        known = {item.value for item in found}
        default = self.get_command(ctx, "status")
        assert default is not None
        more = default.shell_complete(ctx, incomplete)
        return found + [item for item in more if item.value not in known]

    def _word_at(self, args: list[str]) -> int | None:
        """The index of the first word that is neither an option nor an option's value."""
        at = 0
        while at < len(args) and args[at].startswith("-"):
            at += 2 if args[at] in COMMON_WITH_VALUE else 1
        return at if at < len(args) else None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MODULES)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """As click does, without the import of every subcommand."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUMMARIES[name]) for name in MODULES])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MODULES:
            return None
        module = importlib.import_module(f"sluice.{MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command


def _exit_status() -> str:
    codes = [f"{code} {text}" for code, text in EXIT_CODES.items()]
    return "Exit status: " + ", ".join(codes) + "."


@click.group(
    cls=Sluice,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 79},
    epilog=_exit_status(),
)
@click.version_option(
    VERSION, "-V", "--version", prog_name="sluice", message="%(prog)s %(version)s"
)
def sluice() -> None:
    """Show and control backpressure on TUN/TAP devices.

    Without a subcommand: status. With the name of a device: its details.
    """


def _usage_reason(error: click.UsageError) -> str:
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error.format_message().rstrip(".")
    parameters = error.ctx.command.get_params(error.ctx)
    known = [o for one in parameters for o in one.opts if o.startswith("--")]
    reason = f"no such option: {error.option_name}"
    return _with_guess(reason, error.option_name, known, "--")


def _usage_text(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "sluice"
    reason = _usage_reason(error)
    return f"{path.partition(' ')[2] or 'command line'}: {reason}; see: {path} --help"


def _netlink_text(error: NetlinkError) -> str:
    next_step = "run it as root" if error.is_denial else "see: sluice doctor"
    return f"netlink: {error.reason}; {next_step}"


def fail(text: str, code: int, as_json: bool) -> int:
    """Print an error: one line on stderr; with --json as JSON on stdout as well, unless
    it is stdout that fails."""
    complain(text)
    if as_json:
        with contextlib.suppress(OSError):
            say_json({"error": text, "code": code, "meaning": EXIT_CODES[code]})
    return code


def _failed(error: BaseException, as_json: bool) -> int:
    """Print what went wrong; return its exit code."""
    if isinstance(error, click.UsageError):
        return fail(_usage_text(error), USAGE, as_json)
    if isinstance(error, SluiceError):
        return fail(str(error), error.status, as_json)
    if isinstance(error, NetlinkError):
        return fail(_netlink_text(error), DENIED if error.is_denial else NO, as_json)
    if isinstance(error, PermissionError):
        name = error.filename or "system"
        return fail(f"{name}: permission denied; run it as root", DENIED, as_json)
    if isinstance(error, OSError):
        name = error.filename or "system"
        if error.errno == errno.ENOSPC:
            text = f"{error.filename or 'output'}: the disk is full; free some space"
            return fail(text, NO, as_json)
        text = f"{name}: {error.strerror or error}; see: sluice doctor"
        return fail(text, NO, as_json)
    text = (
        f"{type(error).__name__}: {error}; a defect of this command: "
        "report it with the output of: sluice doctor --report"
    )
    return fail(text, NO, as_json)


def run(call: Callable[[], Any], as_json: bool = False) -> int:
    """Run a command and return its exit code; any error is one line on stderr."""
    try:
        result = call()
        sys.stdout.flush()
        return result if isinstance(result, int) else FINE
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has ended: no message
        return NO
    except Exception as error:
        if os.environ.get("SLUICE_TRACEBACK") and not isinstance(
            error, (click.UsageError, SluiceError, NetlinkError, OSError)
        ):
            raise
        return _failed(error, as_json)


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments

    if not prepare():
        return fail(CLOSED, NO, as_json=False)

    def call() -> Any:
        return sluice.main(given, prog_name="sluice", standalone_mode=False)

    return run(call, "--json" in given)
