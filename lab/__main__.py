# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's command: python3 -m lab SUBCOMMAND."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Ctrl-C prints nothing until main() is ready for it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# ruff: noqa: E402
from lab import processes
from lab.cache import ELSEWHERE, cache_dir, empty_cache
from lab.checks import (
    copies,
    endurance,
    generate,
    measure,
    mutants,
    packages,
    quick,
    series,
    testing,
    verify,
)
from lab.failure import FINE, INTERRUPTED, LabError, NO, NOT_SUITABLE, Unsuitable
from lab.failure import USAGE, UsageError
from lab.machines import build, vm
from lab.machines.matrix import KERNELS, NATIVE, NEWEST, PACKAGED, kernel_named
from lab.machines.roots import ensure_root, has_root
from lab.report import markdown
from lab.report.results import Run, read_run
from lab.row import Row
from lab.setup import ensure_venv, say
from lab.workloads import applications, in_kernel, rows_of

OUTPUT = vm.REPOSITORY / "out"
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
DEMO_RETRIES = 2  # of rows whose samples disagree, as a busy host's do

Option = tuple[str, dict[str, Any]]  # what add_argument() takes
Function = Callable[[argparse.Namespace], int]


def positive(kind: type) -> Callable[[str], float]:
    """An argparse type: a number above 0."""

    def parse(text: str) -> float:
        value = kind(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text}: must be above 0")
        return value

    parse.__name__ = kind.__name__
    return parse


def option(name: str, text: str | None = None, **how: Any) -> Option:
    return name, {"help": text, **how}


def number(
    name: str, default: float | None, text: str | None = None, **how: Any
) -> Option:
    """A number above 0: of the type of its default, an int if there is none."""
    kind = float if isinstance(default, float) else int
    how = {"type": positive(kind), "default": default, "metavar": "N", **how}
    return option(name, text, **how)


def switch(name: str, text: str) -> Option:
    return option(name, text, action="store_true")


_KERNEL = f"one of those that python3 -m lab --help lists; {NEWEST}"
KERNEL = option("--kernel", _KERNEL, type=kernel_named, default=NEWEST)
JSON = option("--json", "save the result there", type=measure.writable, metavar="FILE")
_NATIVE = f"as --kernel {NATIVE.name}: a process at the CPU's own speed"
AS_NATIVE = option(
    "--native", _NATIVE, action="store_const", dest="kernel", const=NATIVE
)
_COUNTED = "the clock counts instructions, 1 ns each: a busy host does not matter"
COUNTED = switch("--counted", _COUNTED)


def comma_separated(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


LIST: dict[str, Any] = {"type": comma_separated, "default": (), "metavar": "A,B"}


def measuring(seconds: float, rounds: int = 3) -> tuple[Option, ...]:
    """The options of every subcommand that measures."""
    rows = option("--rows", "only these rows; * and ? match", **LIST)
    turns = number("--rounds", rounds, f"how often all variants are measured; {rounds}")
    long = number("--seconds", seconds, f"for each sample; {seconds}", metavar="S")
    return KERNEL, AS_NATIVE, turns, long, rows, JSON


SUBCOMMANDS: dict[str, tuple[Function, str, tuple[Option, ...]]] = {}


def subcommand(text: str, *options: Option) -> Callable[[Function], Function]:
    """Makes the function command_NAME the subcommand NAME."""

    def add(function: Function) -> Function:
        name = function.__name__.removeprefix("command_")
        SUBCOMMANDS[name] = function, text, options
        return function

    return add


def _measure(
    options: argparse.Namespace, known: list[Row], **how: Any
) -> tuple[Run, Path]:
    """how: the further fields of measure.Plan."""
    rows, kernel = measure.choose_rows(options.rows, known), options.kernel
    if getattr(options, "series", False):
        series.require_source(kernel)
        rows = [row.with_series() for row in rows]
    how.setdefault("vcpus", vm.default_vcpus(kernel))
    plan = measure.Plan(kernel, rows, options.rounds, options.seconds, **how)
    run, path = measure.measure(plan, options.json)
    measure.show(run)
    print(f"saved in {path}")
    return run, path


def _write_page(result: Path, page: Path) -> None:
    """The plots need the lab's venv."""
    command = [str(ensure_venv()), "-B", "-m", "lab.report.page"]
    command += [str(path.absolute()) for path in (result, page)]
    done = processes.run(command, cwd=vm.REPOSITORY)
    if done.returncode != 0:
        raise LabError(f"{page}: could not be drawn (see above)")
    print(f"page  in {page}")


def _measure_with_page(
    options: argparse.Namespace, known: list[Row], **how: Any
) -> int:
    run, path = _measure(options, known, **how)
    _write_page(path, path.with_suffix(".html"))
    return measure.bench_status(run)


def _show_native_first(options: argparse.Namespace) -> None:
    """The demo's rows at the CPU's own speed, if that machine is built."""
    if not has_root(NATIVE):
        say("no native figures: make native builds that machine; then they come first")
        return
    rows = [row for row in rows_of("native") if row.demo]
    native = {**vars(options), "kernel": NATIVE, "json": None}
    try:
        _measure(argparse.Namespace(**native), rows, retries=DEMO_RETRIES)
    except LabError as error:
        say(f"no native figures: {error}")


@subcommand("a few rows as a table, in a few minutes", *measuring(1.5))
def command_demo(options: argparse.Namespace) -> int:
    if options.kernel.name == NEWEST and not options.rows:
        _show_native_first(options)
    rows = [row for row in rows_of("bench") if row.demo]
    run, _ = _measure(options, rows, retries=DEMO_RETRIES)
    return measure.demo_status(run)


_PATCHED = "the drivers of make series are one more variant (newest kernels only)"
_MINUTES = "--native: go on, for N minutes at most, until each ratio is known to 3 %%"


@subcommand(
    "measure every row and check the figures it must reach",
    *(*measuring(3.0), COUNTED),
    switch("--series", _PATCHED),
    option("--minutes", _MINUTES, type=float, default=30, metavar="N"),
)
def command_bench(options: argparse.Namespace) -> int:
    if not options.kernel.native:
        return _measure_with_page(options, rows_of("bench"), counted=options.counted)
    rows = rows_of("native")
    if not options.rows:
        rows = in_kernel.usual(rows, vm.default_vcpus(NATIVE))
    return _measure_with_page(options, rows, minutes=options.minutes)


@subcommand(
    "measure VPN programs of the distribution, unmodified", *measuring(12.0), COUNTED
)
def command_apps(options: argparse.Namespace) -> int:
    known = rows_of("apps")
    if not options.rows:
        known = [row for row in known if row.demo]
    how = {"counted": options.counted, "packages": applications.PACKAGES}
    return _measure_with_page(options, known, **how)


@subcommand("measure latency and throughput of shorter rings", *measuring(3.0))
def command_depth(options: argparse.Namespace) -> int:
    known = rows_of("native_depth" if options.kernel.native else "depth")
    return _measure_with_page(options, known)


@subcommand("count instructions per packet on one CPU", *measuring(3.0, rounds=1))
def command_cost(options: argparse.Namespace) -> int:
    run, _ = _measure(options, rows_of("cost"), counted=True, vcpus=1)
    return measure.bench_status(run)


@subcommand(
    "show a saved run",
    option("file", "a result that the lab saved", metavar="FILE"),
    option("--page", "write an HTML page there", metavar="FILE"),
)
def command_report(options: argparse.Namespace) -> int:
    run = read_run(Path(options.file))
    measure.show(run)
    if options.page:
        _write_page(Path(options.file), Path(options.page))
    return measure.bench_status(run)


@subcommand("write the figures of the tables in docs/ from the results they name")
def command_tables(options: argparse.Namespace) -> int:
    for path in sorted((vm.REPOSITORY / "docs").glob("*.md")):
        before = path.read_text()
        after = markdown.refresh(before, lambda name: read_run(vm.REPOSITORY / name))
        if after != before:
            path.write_text(after)
            print(f"docs/{path.name}: written")
    return FINE


@subcommand(
    "a shell in a VM, or one command",
    *(KERNEL, AS_NATIVE),
    option("--exec", "run CMD and power off", metavar="CMD"),
    option("--out", "keep the guest's /out there", metavar="DIR"),
    switch("--apps", "with the programs of lab apps"),
    option("--packages", "with these of Debian's packages", **LIST),
    number("--deadline", 600.0, "seconds for CMD; 600", metavar="S"),
    number("--cpus", None, "of the VM"),
    number("--memory", None, "of the VM", metavar="MB"),
)
def command_shell(options: argparse.Namespace) -> int:
    packages = applications.PACKAGES if options.apps else ()
    kernel = options.kernel
    root = ensure_root(kernel, packages + options.packages)
    with tempfile.TemporaryDirectory(prefix="sluice-lab-") as name:
        output = Path(options.out or name).absolute()
        output.mkdir(parents=True, exist_ok=True)
        staged = build.stage(root, output)
        memory_mb = options.memory or kernel.memory_mb
        cpus = options.cpus or vm.default_vcpus(kernel)
        machine = vm.Machine(root, output, cpus, memory_mb)
        if options.exec is None:
            return vm.run_shell(machine)
        job = {"kind": "command", "argv": ["sh", "-c", options.exec], **staged}
        result = vm.run_job(machine, job, options.deadline)
        for line in result.trouble:
            print(f"lab: kernel: {line}", file=sys.stderr)
        return result.status or (NO if result.trouble else 0)


@subcommand(
    "build the module",
    option("--kernel", "only for this one; default: for all", type=kernel_named),
    switch("--check", "W=1, sparse and checkpatch too"),
)
def command_build(options: argparse.Namespace) -> int:
    for kernel in (options.kernel,) if options.kernel else PACKAGED:
        root = ensure_root(kernel)
        print(build.build_module(root))
        complaints = build.complaints(root) if options.check else []
        if complaints:
            print("\n".join(complaints))
            raise LabError(
                f"kernel {kernel.name}: {len(complaints)} complaints of the compiler, "
                "sparse and checkpatch (see above); correct them"
            )
    return 0


@subcommand(
    "run the tests",
    option("what", nargs="?", default="all", choices=testing.FOLDERS),
    option("arguments", "for pytest, after --", nargs="*"),
)
def command_test(options: argparse.Namespace) -> int:
    return testing.test(options.what, options.arguments)


@subcommand("run linters, unit tests and one build", KERNEL)
def command_check(options: argparse.Namespace) -> int:
    return quick.check(options.kernel)


@subcommand(
    "run every proof",
    switch("--short", "only those of make test"),
    switch("--reviewed", "record that copies were compared with the changed functions"),
)
def command_verify(options: argparse.Namespace) -> int:
    if options.reviewed:
        copies.write_reviewed()
        return 0
    return verify.verify(options.short)


@subcommand(
    "seed faults that the proofs must find",
    option("--files", "only of these sources", **LIST),
    number("--sample", 0, "N mutants drawn at random, with less effort for each"),
    option("--seed", "of the sample", type=int, metavar="N"),
    JSON,
)
def command_mutants(options: argparse.Namespace) -> int:
    files = options.files or mutants.FILES
    unknown = set(files) - set(mutants.FILES)
    if unknown:
        raise UsageError(f"{unknown.pop()}: not among {', '.join(mutants.FILES)}")
    return mutants.mutants(options.sample, options.seed, files, options.json)


@subcommand(
    "play random sequences on a tap in use",
    KERNEL,
    number("--seed", 1, "of the first sequence; 1"),
    number("--sequences", 300, "how many; 300"),
    JSON,
)
def command_abuse(options: argparse.Namespace) -> int:
    return endurance.abuse(
        options.kernel, options.seed, options.sequences, options.json
    )


@subcommand(
    "one scenario many times in one boot",
    option("scenario", "of tests/kernel/scenarios", metavar="MODULE.FUNCTION"),
    KERNEL,
    number("--times", 20, "how often; 20"),
)
def command_again(options: argparse.Namespace) -> int:
    return testing.again(options.kernel, options.scenario, options.times)


@subcommand(
    "run mixed traffic for a long time",
    KERNEL,
    number("--minutes", 30.0, "how long; 30"),
    JSON,
)
def command_soak(options: argparse.Namespace) -> int:
    return endurance.soak(options.kernel, options.minutes, options.json)


@subcommand(
    "build and check the kernel patches",
    option("--kernel", NEWEST, default=NEWEST, choices=[*series.KERNELS]),
    option("--out", "default: out/series/", default=OUTPUT / "series", metavar="DIR"),
    switch("--boot", "play its tests with the patched drivers loaded, in VMs"),
)
def command_series(options: argparse.Namespace) -> int:
    return series.series(options.kernel, Path(options.out).absolute(), options.boot)


@subcommand(
    "build the Debian packages",
    option("--out", "default: out/", default=OUTPUT, metavar="DIR"),
)
def command_deb(options: argparse.Namespace) -> int:
    output = Path(options.out).absolute()
    output.mkdir(parents=True, exist_ok=True)
    for package in packages.ensure_packages():
        print(shutil.copy(package, output))
    return 0


@subcommand("make the module's headers and docs/netlink.md from docs/sluice.yaml")
def command_generate(_: argparse.Namespace) -> int:
    return generate.generate()


@subcommand("empty the cache")
def command_clean(_: argparse.Namespace) -> int:
    say(f"removing what is in {cache_dir()}")
    if not empty_cache():
        say("there is none")
    return 0


def parser() -> argparse.ArgumentParser:
    names = ", ".join(kernel.name for kernel in KERNELS)
    top = argparse.ArgumentParser(
        prog="python3 -m lab", description=__doc__, epilog=f"kernels: {names}"
    )
    commands = top.add_subparsers(required=True, metavar="SUBCOMMAND")
    for name, (function, text, options) in SUBCOMMANDS.items():
        command = commands.add_parser(name, help=text)
        for argument, how in options:
            command.add_argument(argument, **how)
        command.set_defaults(run=function)
    return top


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if len(sys.argv) == 1:
        parser().print_help(sys.stderr)
        return USAGE
    # On SIGTERM, clean up as on any other exit.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        options = parser().parse_args()
        if sys.version_info < (3, 11):
            raise Unsuitable("python3: older than 3.11; use a newer one")
        status = options.run(options)
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
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
