# SPDX-License-Identifier: GPL-2.0-or-later
"""The command sluice: its subcommands, its common options, its exit code."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem
from pyroute2.netlink.exceptions import NetlinkError

from sluice import VERSION
from sluice.errors import FINE, NO, USAGE, SluiceError
from sluice.output import complain
from sluice.system import netlink_reason

COMMON_WITH_VALUE = ("--netns",)
# In the order of use; each subcommand is the function of its name in a module,
# which is not imported before it is needed: start-up is most of the time we take.
MODULES = {
    "status": "status",
    "on": "switch",
    "off": "switch",
    "apply": "apply",
    "watch": "watch",
    "doctor": "doctor",
    "bench": "bench",
    "install": "install",
    "uninstall": "install",
    "metrics": "metrics",
    "completion": "completion",
}


class Sluice(click.Group):
    """No subcommand means status; common options may stand before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = self._command_at(args)
        if ctx.resilient_parsing and args[-1:] != ["--netns"]:
            pass  # a shell completes: what is not there yet may be a subcommand
        elif at is None and not {"--help", "-h", "--version"} & set(args[:1]):
            args = ["status", *args] if not args or args[0][:1] == "-" else args
        elif at:
            args = [args[at], *args[:at], *args[at + 1 :]]
        return super().parse_args(ctx, args)

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[CompletionItem]:
        found = super().shell_complete(ctx, incomplete)
        if not incomplete.startswith("-"):
            return found
        known = {item.value for item in found}
        default = self.get_command(ctx, "status")
        assert default is not None
        more = default.shell_complete(ctx, incomplete)
        return found + [item for item in more if item.value not in known]

    def _command_at(self, args: list[str]) -> int | None:
        """Where the subcommand is, behind common options only."""
        at = 0
        while at < len(args) and args[at].startswith("-"):
            at += 2 if args[at] in COMMON_WITH_VALUE else 1
        return at if at < len(args) and args[at] in MODULES else None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in MODULES:
            return None
        module = importlib.import_module(f"sluice.{MODULES[cmd_name]}")
        return getattr(module, cmd_name)


@click.group(
    cls=Sluice,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 79},
    epilog="Exit status: 0 fine, 1 no, 2 usage, 3 this machine is not suitable.",
)
@click.version_option(VERSION, prog_name="sluice", message="%(prog)s %(version)s")
def sluice() -> None:
    """Lossless TUN/TAP and vhost-net: see, switch, and trust it.

    Without a subcommand: status.
    """


def _usage_text(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "sluice"
    reason = error.format_message().rstrip(".")
    return f"{path.partition(' ')[2] or 'command line'}: {reason}; see: {path} --help"


def _netlink_text(error: NetlinkError) -> str:
    next_step = "run it as root" if error.code == errno.EPERM else "see: sluice doctor"
    return f"netlink: {netlink_reason(error)}; {next_step}"


def run(call: Callable[[], Any]) -> int:
    """The exit code of a command; whatever went wrong is one line on stderr."""
    try:
        result = call()
        sys.stdout.flush()
        return result if isinstance(result, int) else FINE
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        complain(_usage_text(error))
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except SluiceError as error:
        complain(str(error))
        return error.status
    except NetlinkError as error:
        complain(_netlink_text(error))
        return NO
    except BrokenPipeError:
        # Whoever read has enough: nothing to say, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO
    except OSError as error:
        name = error.filename or "system"
        complain(f"{name}: {error.strerror or error}; see: sluice doctor")
        return NO


def main(arguments: list[str] | None = None) -> int:
    # pyroute2 logs what it raises as well: one line on stderr is enough.
    logging.basicConfig(handlers=[logging.NullHandler()])

    def call() -> Any:
        return sluice.main(arguments, prog_name="sluice", standalone_mode=False)

    if os.environ.get("SLUICE_TRACEBACK"):
        return run(call)
    try:
        return run(call)
    except Exception as error:  # ours: say so on one line, as for any other
        complain(
            f"{type(error).__name__}: {error}; a defect of this command: "
            "report it with the output of: sluice doctor --report"
        )
        return NO
