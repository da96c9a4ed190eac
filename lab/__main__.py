# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's command: python3 -m lab SUBCOMMAND."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Ctrl-C prints nothing until main() is ready for it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.version_info < (3, 11):  # which what is imported below needs
        print("lab: python3: older than 3.11; use a newer one", file=sys.stderr)
        sys.exit(3)  # NOT_SUITABLE

# ruff: noqa: E402
from lab import processes
from lab.cache import ELSEWHERE, cache_dir, empty_cache
from lab.checks import (
    generate,
    measure,
    mutants,
    packages,
    plays,
    quick,
    series,
    testing,
    verify,
)
from lab.failure import FINE, INTERRUPTED, NO, NOT_SUITABLE, LabError, UsageError
from lab.machines import build, vm
from lab.machines.kernels import kernel_of
from lab.machines.matrix import KERNELS, NATIVE, NEWEST, PACKAGED, Kernel, kernel_named
from lab.machines.roots import ensure_root
from lab.report import markdown
from lab.report.demo import format_demo
from lab.report.results import read_run
from lab.row import Row
from lab.setup import ensure_venv, say
from lab.workloads import USUAL_NATIVE, applications, rows_of

TERMINATED = 143
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
Option = tuple[str, dict[str, Any]]  # what add_argument() takes
Function = Callable[..., int]  # its arguments have the names of its options


def option(name: str, text: str | None = None, **settings: Any) -> Option:
    return name, {"help": text, **settings}


def number(name: str, default: float, text: str, **settings: Any) -> Option:
    """A number above 0, of the type of its default."""
    kind = type(default)

    def parse(text: str) -> float:
        if not 0 < kind(text) < float("inf"):
            raise argparse.ArgumentTypeError(f"{text}: must be above 0")
        return kind(text)

    parse.__name__ = kind.__name__
    settings = {"type": parse, "default": default, "metavar": "N", **settings}
    return option(name, text, **settings)


def switch(name: str, text: str, **settings: Any) -> Option:
    return option(name, text, action="store_true", **settings)


_KERNEL = f"one of those that python3 -m lab --help lists; {NEWEST}"
KERNEL = option("--kernel", _KERNEL, type=kernel_named, default=NEWEST)
_SAVED = "save the result there"
JSON = option("--json", _SAVED, type=measure.writable, metavar="FILE", dest="path")
_NATIVE = f"as --kernel {NATIVE.name}: a process at the CPU's own speed"
AS_NATIVE = option("--native", _NATIVE, action="store_const", dest="kernel", const=NATIVE)
COUNTED = switch("--counted", "the clock counts instructions: a busy host is no matter")
_SERIES = "the drivers of make series are one more variant (newest kernels only)"
_SLOTS = "those of its first two patches, with the flag, are one more variant"
PATCHED = (switch("--series", _SERIES), switch("--slots", _SLOTS))
MINUTES = "--native: go on, for N minutes at most, until each ratio is known to 3 %%"
OWN_TREE = "for what is committed in this git tree of a kernel, which stays as it is"
FOLDER = {"type": Path, "default": vm.REPOSITORY / "out/series", "metavar": "DIR"}

PARSER = argparse.ArgumentParser(
    prog="python3 -m lab",
    description=__doc__,
    epilog=f"kernels: {', '.join(kernel.name for kernel in KERNELS)}",
)
SUBCOMMANDS = PARSER.add_subparsers(required=True, metavar="SUBCOMMAND")


def subcommand(text: str, *options: Option) -> Callable[[Function], Function]:
    """Makes the function NAME, or command_NAME, the subcommand NAME."""

    def add(function: Function) -> Function:
        name = function.__name__.removeprefix("command_")
        command = SUBCOMMANDS.add_parser(name, help=text)
        for argument, settings in options:
            command.add_argument(argument, **settings)
        command.set_defaults(function=function)
        return function

    return add


# Of the subcommands that do without the lab's table, see run().
TREE = (
    option("--tree", "a kernel's source, built in its place", type=Path, metavar="DIR"),
    option("--config", "of that; default: DIR/.config", type=Path, metavar="FILE"),
)


def measuring(seconds: float, rounds: int = 3) -> tuple[Option, ...]:
    """The options of every subcommand that measures."""
    names = {"type": lambda text: text.split(","), "default": [], "metavar": "A,B"}
    rows = option("--rows", "only these rows; * and ? match", dest="patterns", **names)
    turns = number("--rounds", rounds, f"how often all variants are measured; {rounds}")
    long = number("--seconds", seconds, f"for each sample; {seconds}", metavar="S")
    return KERNEL, AS_NATIVE, turns, long, rows, JSON


def _plan(known: list[Row], patterns: Sequence[str], **settings: Any) -> measure.Plan:
    """settings: the further fields of measure.Plan."""
    return measure.Plan(rows=measure.choose_rows(patterns, known), **settings)


def _measure(known: list[Row], path: Path | None, **settings: Any) -> int:
    """settings: see _plan()."""
    run, path = measure.measure(_plan(known, **settings), path)
    measure.show(run)
    print(f"saved in {path}")
    return measure.bench_status(run)


def _write_page(result: Path, page: Path) -> None:
    """Its plots need the lab's venv."""
    command = [str(ensure_venv()), "-B", "-m", "lab.report.page"]
    command += [str(result.absolute()), str(page.absolute())]
    sys.stdout.flush()
    if processes.run(command, cwd=vm.REPOSITORY).returncode != 0:
        raise LabError(f"{page}: could not be drawn (see above)")
    print(f"page  in {page}")


@subcommand("what sluice is for, as a table, in four minutes", *measuring(4.0, rounds=1))
def command_demo(path: Path | None, **settings: Any) -> int:
    plan = _plan(rows_of("demo"), **settings)
    ensure_venv()  # The page needs it: if it cannot be made, nothing is measured.
    run, path = measure.measure(plan, path)
    print(format_demo(run, measure.read_colour()))
    print(f"\nsaved in {path}")
    _write_page(path, path.with_suffix(".html"))
    return measure.bench_status(run, demo=True)


@subcommand(
    "measure every row and check the figures it must reach",
    *measuring(3.0),
    COUNTED,
    *PATCHED,
    option("--minutes", MINUTES, type=float, default=30, metavar="N"),
    *TREE,
)
def command_bench(minutes: float, counted: bool, **settings: Any) -> int:
    if not settings["kernel"].native:
        return _measure(rows_of("bench"), counted=counted, **settings)
    settings["patterns"] = settings["patterns"] or USUAL_NATIVE
    return _measure(rows_of("native"), minutes=minutes, **settings)


@subcommand(
    "measure VPN programs of the distribution, unmodified", *measuring(6.0, rounds=5)
)
def command_apps(**settings: Any) -> int:
    settings["patterns"] = settings["patterns"] or applications.USUAL
    return _measure(rows_of("apps"), packages=applications.PACKAGES, **settings)


@subcommand("measure latency and throughput of shorter rings", *measuring(3.0))
def command_depth(**settings: Any) -> int:
    known = rows_of("native_depth" if settings["kernel"].native else "depth")
    return _measure(known, **settings)


@subcommand(
    "count instructions per packet on one CPU", *measuring(3.0, rounds=1), *PATCHED
)
def command_cost(**settings: Any) -> int:
    return _measure(rows_of("cost"), counted=True, vcpus=1, **settings)


@subcommand(
    "show a saved run",
    option("file", "a result that the lab saved", metavar="FILE", type=Path),
    option("--page", "write an HTML page there", metavar="FILE", type=Path),
)
def command_report(file: Path, page: Path | None) -> int:
    run = read_run(file)
    measure.show(run)
    if page:
        _write_page(file, page)
    return measure.bench_status(run)


@subcommand("write the figures of the tables in docs/ from the results they name")
def command_tables() -> int:
    for path in sorted((vm.REPOSITORY / "docs").glob("*.md")):
        before = path.read_text()
        after = markdown.refresh(before, lambda name: read_run(vm.REPOSITORY / name))
        if after != before:
            path.write_text(after)
            print(f"docs/{path.name}: written")
    return FINE


@subcommand("a shell in a VM", KERNEL, AS_NATIVE, switch("--apps", "with VPN programs"))
def command_shell(kernel: Kernel, apps: bool) -> int:
    with testing.machine_for(replace(kernel, applications=apps)) as machine:
        build.stage(machine.root, machine.output)
        return vm.run_shell(machine)


@subcommand(
    "build the module",
    option("--kernel", "only for this one; default: for all", type=kernel_named),
    switch("--check", "W=1, sparse and checkpatch too"),
    *TREE,
)
def command_build(kernel: Kernel | None, check: bool) -> int:
    for one in (kernel,) if kernel else PACKAGED:
        root = ensure_root(one)
        print(build.build_module(root))
        complaints = build.complaints(root) if check else []
        if complaints:
            print("\n".join(complaints))
            raise LabError(
                f"kernel {one.name}: {len(complaints)} complaints of the compiler, "
                "sparse and checkpatch (see above); correct them"
            )
    return FINE


@subcommand(
    "run the tests",
    option("what", nargs="?", default="short", choices=testing.FOLDERS),
    option("arguments", "for pytest, after --; with --tree: scenarios", nargs="*"),
    *TREE,
    JSON,
)
def command_test(
    what: str, arguments: list[str], path: Path | None, kernel: Kernel | None = None
) -> int:
    if kernel is None:
        return testing.test(what, arguments)
    if what != "kernel":
        raise UsageError(f"test {what}: not with --tree; the kernel scenarios are")
    return plays.play_on_tree(kernel, arguments, path)


subcommand("run linters, unit tests and one build", KERNEL)(quick.check)


@subcommand("run the linters alone")
def command_lint() -> int:
    return FINE if quick.lint() else NO


subcommand(
    "run every proof",
    switch("--short", "only those of make test"),
    switch("--reviewed", "record that copies were compared with the changed functions"),
)(verify.verify)
subcommand(
    "print the faults in the module that the proofs do not find",
    number("--sample", 0, "of N mutants drawn at random"),
    option("--seed", "of the sample", type=int, metavar="N"),
)(mutants.mutants)
subcommand(
    "play random sequences on a tap in use",
    KERNEL,
    number("--seed", 1, "of the first sequence; 1"),
    number("--sequences", 300, "how many; 300"),
    JSON,
    *TREE,
)(plays.abuse)
subcommand(
    "scenarios many times in one boot",
    KERNEL,
    option("scenarios", "of tests/kernel", nargs="+", metavar="MODULE.FUNCTION"),
    number("--times", 20, "how often; 20"),
    JSON,
)(plays.again)
subcommand(
    "run mixed traffic for a long time",
    KERNEL,
    JSON,
    number("--minutes", 30.0, "how long; 30"),
)(plays.soak)
subcommand(
    "build and check the kernel patches",
    option("--kernel", NEWEST, default=NEWEST, choices=[*series.KERNELS], dest="source"),
    option("--out", "default: out/series/", dest="output", **FOLDER),
    switch("--boot", "play its tests with the patched drivers, in VMs", dest="booted"),
    option("--tree", OWN_TREE, dest="own", type=Path, metavar="DIR"),
)(series.series)


@subcommand("build the Debian packages")
def command_deb() -> int:
    output = vm.REPOSITORY / "out"
    output.mkdir(exist_ok=True)
    for package in packages.ensure_packages():
        print(shutil.copy(package, output))
    return FINE


subcommand("make the module's headers and docs/netlink.md from docs/sluice.yaml")(
    generate.generate
)


@subcommand("empty the cache")
def command_clean() -> int:
    say(f"removing what is in {cache_dir()}")
    empty_cache()
    return FINE


def run(arguments: list[str]) -> int:
    # argparse refuses what follows "--" if options stand before it.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = vars(PARSER.parse_args(arguments[:end]))
    if rest := arguments[end + 1 :]:
        if "arguments" not in options:
            PARSER.error(f"unrecognized arguments: {' '.join(rest)}")
        options["arguments"] += rest
    tree, config = options.pop("tree", None), options.pop("config", None)
    if tree:
        options["kernel"] = kernel_of(tree, config)
    status: int = options.pop("function")(**options)
    return status


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, processes.terminate)
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader of our output has ended: no message, nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return error.status
    except OSError as error:
        if error.errno not in NOT_WRITTEN:
            raise
        where = Path(error.filename or cache_dir())
        own = where.is_relative_to(cache_dir())
        remedy = ELSEWHERE if own else "make room there, or name another folder"
        print(f"lab: {where}: {error.strerror}; {remedy}", file=sys.stderr)
        return NOT_SUITABLE
    except KeyboardInterrupt as interrupt:
        kept = str(interrupt) or "what is complete stays in the cache"
        print(f"lab: interrupted; {kept}", file=sys.stderr)
        return TERMINATED if isinstance(interrupt, processes.Terminated) else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
