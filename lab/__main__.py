# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's command: python3 -m lab SUBCOMMAND."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.cache import cache_dir
from lab.checks import (
    abuse,
    copies,
    measure,
    mutants,
    packages,
    quick,
    series,
    soak,
    testing,
    verify,
)
from lab.errors import LabError, NO, Unsuitable
from lab.machines import build, vm
from lab.machines.matrix import KERNELS, NATIVE, NEWEST, PACKAGED, Kernel, kernel_named
from lab.machines.roots import ensure_root, has_root
from lab.report.results import Run, read_run
from lab.row import Row
from lab.setup import ensure_venv, say
from lab.workloads import applications, in_kernel, rows_of

DEMO_RETRIES = 2  # of rows whose samples disagree, as a busy host's do


def kernels_of(options: argparse.Namespace) -> tuple[Kernel, ...]:
    return (kernel_named(options.kernel),) if options.kernel else PACKAGED


def command_shell(options: argparse.Namespace) -> int:
    packages = applications.PACKAGES if options.apps else ()
    kernel = kernel_named(options.kernel)
    root = ensure_root(kernel, packages)
    with tempfile.TemporaryDirectory(prefix="sluice-lab-") as name:
        output = Path(options.out or name).absolute()
        output.mkdir(parents=True, exist_ok=True)
        staged = {} if options.bare else build.stage(root, output)
        memory_mb = options.memory or kernel.memory_mb
        cpus = options.cpus or vm.default_vcpus(kernel)
        machine = vm.Machine(root, output, cpus, memory_mb)
        if options.exec is None:
            return vm.run_shell(machine)
        job = {"kind": "command", "argv": ["sh", "-c", options.exec], **staged}
        result = vm.run_job(machine, job, options.deadline)
        for line in result.trouble:
            print(f"lab: kernel: {line}", file=sys.stderr)
        if options.verbose:
            say(f"{result.seconds:.1f} s")
        return result.status or (NO if result.trouble else 0)


def command_build(options: argparse.Namespace) -> int:
    source = Path(options.source).absolute()
    for kernel in kernels_of(options):
        root = ensure_root(kernel)
        print(build.build_module(root, source))
        if not options.check:
            continue
        check = build.check_module(root, source)
        if check.warnings:
            print("\n".join(check.warnings))
            raise LabError(
                f"kernel {kernel.name}: {len(check.warnings)} complaints of "
                "the compiler and sparse (see above); correct them"
            )
    if options.check:
        complaints = build.check_style(root, build.source_files(source))
        if complaints:
            print("\n".join(complaints))
            raise LabError(
                f"{source.name}/: {len(complaints)} complaints of checkpatch "
                "(see above); correct them"
            )
    return 0


def _written(name: str | None) -> Path | None:
    """The file to save a result in, checked to be writable; None if none is named."""
    if name is not None:
        measure.ensure_writable(Path(name))
    return Path(name) if name is not None else None


def _measure(
    options: argparse.Namespace, known: list[Row], **how: Any
) -> tuple[Run, Path]:
    """how: the further fields of measure.Plan."""
    rows = measure.choose_rows(options.rows, known)
    kernel = kernel_named(options.kernel)
    how.setdefault("vcpus", vm.default_vcpus(kernel))
    plan = measure.Plan(kernel, rows, options.rounds, options.seconds, **how)
    run, path = measure.measure(plan, _written(options.json))
    measure.show(run)
    print(f"saved in {path}")
    return run, path


def _write_page(result: Path, page: Path) -> None:
    """The plots need the lab's venv."""
    command = [str(ensure_venv()), "-B", "-m", "lab.report.page"]
    command += [str(path.absolute()) for path in (result, page)]
    done = subprocess.run(command, cwd=vm.REPOSITORY)
    if done.returncode != 0:
        raise LabError(f"{page}: could not be drawn (see above)")
    print(f"page  in {page}")


def _show_native_first(options: argparse.Namespace) -> None:
    """The demo's rows at the CPU's own speed, if that machine is built."""
    if not has_root(NATIVE):
        say("no native figures: make native builds that machine; then they come first")
        return
    rows = [row for row in rows_of("native") if row.demo]
    native = {**vars(options), "kernel": NATIVE.name, "json": None}
    try:
        _measure(argparse.Namespace(**native), rows, retries=DEMO_RETRIES)
    except LabError as error:
        say(f"no native figures: {error}")


def command_demo(options: argparse.Namespace) -> int:
    if options.kernel == NEWEST and options.rows is None:
        _show_native_first(options)
    rows = [row for row in rows_of("bench") if row.demo]
    run, _ = _measure(options, rows, retries=DEMO_RETRIES)
    return measure.demo_status(run)


def _measure_with_page(
    options: argparse.Namespace, known: list[Row], **how: Any
) -> int:
    run, path = _measure(options, known, **how)
    _write_page(path, path.with_suffix(".html"))
    return measure.bench_status(run)


def command_bench(options: argparse.Namespace) -> int:
    if kernel_named(options.kernel).native:
        return _measure_native(options)
    return _measure_with_page(options, rows_of("bench"), counted=options.counted)


def _measure_native(options: argparse.Namespace) -> int:
    rows = rows_of("native")
    if options.rows is None:
        rows = in_kernel.usual(rows, vm.default_vcpus(NATIVE))
    return _measure_with_page(options, rows, minutes=options.minutes)


def command_apps(options: argparse.Namespace) -> int:
    known = rows_of("apps")
    if options.rows is None:
        known = [row for row in known if row.demo]
    how = {"counted": options.counted, "packages": applications.PACKAGES}
    return _measure_with_page(options, known, **how)


def command_depth(options: argparse.Namespace) -> int:
    native = kernel_named(options.kernel).native
    return _measure_with_page(options, rows_of("native_depth" if native else "depth"))


def command_cost(options: argparse.Namespace) -> int:
    run, _ = _measure(options, rows_of("cost"), counted=True, vcpus=1)
    return measure.bench_status(run)


def command_report(options: argparse.Namespace) -> int:
    run = read_run(Path(options.file))
    measure.show(run)
    if options.page:
        _write_page(Path(options.file), Path(options.page))
    return measure.bench_status(run)


def command_test(options: argparse.Namespace) -> int:
    return testing.test(options.what, options.arguments)


def command_check(options: argparse.Namespace) -> int:
    return quick.check(kernel_named(options.kernel))


def command_verify(options: argparse.Namespace) -> int:
    if options.reviewed:
        copies.write_reviewed()
        return 0
    return verify.verify(options.short)


def command_mutants(options: argparse.Namespace) -> int:
    files = tuple(options.files.split(",")) if options.files else mutants.FILES
    unknown = set(files) - set(mutants.FILES)
    if unknown:
        raise LabError(f"{unknown.pop()}: not among {', '.join(mutants.FILES)}")
    return mutants.mutants(options.sample, options.seed, files, options.goal)


def command_abuse(options: argparse.Namespace) -> int:
    path = _written(options.json)
    kernel = kernel_named(options.kernel)
    return abuse.abuse(kernel, options.seed, options.sequences, path)


def command_again(options: argparse.Namespace) -> int:
    return testing.again(kernel_named(options.kernel), options.scenario, options.times)


def command_soak(options: argparse.Namespace) -> int:
    path = _written(options.json)
    return soak.soak(kernel_named(options.kernel), options.minutes, path)


def command_deb(options: argparse.Namespace) -> int:
    output = Path(options.out).absolute()
    output.mkdir(parents=True, exist_ok=True)
    for package in packages.ensure_packages():
        print(shutil.copy(package, output))
    return 0


def command_series(options: argparse.Namespace) -> int:
    output = Path(options.out or vm.REPOSITORY / "out" / "series").absolute()
    return series.series(options.kernel, output, options.boot)


def command_clean(_: argparse.Namespace) -> int:
    say(f"removing {cache_dir()}")
    shutil.rmtree(cache_dir(), ignore_errors=True)
    return 0


def positive(kind: type) -> Callable[[str], float]:
    """An argparse type: a number above 0."""

    def parse(text: str) -> float:
        value = kind(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text}: must be above 0")
        return value

    parse.__name__ = kind.__name__
    return parse


def _add_native(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--native",
        action="store_const",
        dest="kernel",
        const=NATIVE.name,
        help=f"as --kernel {NATIVE.name}: a process at the CPU's own speed",
    )


def _add_shell(commands) -> None:
    shell = commands.add_parser("shell", help="a shell in a VM, or one command")
    shell.add_argument("--kernel", default=NEWEST)
    shell.add_argument("--exec", metavar="CMD", help="run CMD and power off")
    shell.add_argument("--out", metavar="DIR", help="keep the guest's /out there")
    with_apps = "with the programs of lab apps"
    shell.add_argument("--apps", action="store_true", help=with_apps)
    shell.add_argument("--bare", action="store_true", help="build nothing first")
    shell.add_argument("--deadline", type=positive(float), default=600, metavar="S")
    shell.add_argument("--cpus", type=positive(int), metavar="N")
    _add_native(shell)
    shell.add_argument("--memory", type=positive(int), metavar="MB")
    shell.add_argument("--verbose", action="store_true", help="print how long it took")
    shell.set_defaults(run=command_shell)


def _add_build(commands) -> None:
    make = commands.add_parser("build", help="build the module")
    make.add_argument("--kernel", help="only for this one; default: for all")
    make.add_argument("--source", default=str(build.KMOD), metavar="DIR")
    check = "W=1, sparse and checkpatch too"
    make.add_argument("--check", action="store_true", help=check)
    make.set_defaults(run=command_build)


def _add_measuring(
    commands,
    name: str,
    text: str,
    seconds: float,
    run,
    rounds: int = 3,
    counted: str | None = None,
) -> argparse.ArgumentParser:
    """counted: help for the option of that name, if it is to have it."""
    command = commands.add_parser(name, help=text)
    command.add_argument("--kernel", default=NEWEST)
    command.add_argument("--rounds", type=positive(int), default=rounds, metavar="N")
    command.add_argument(
        "--seconds", type=positive(float), default=seconds, metavar="S"
    )
    rows = "only these rows; * and ? match"
    command.add_argument("--rows", metavar="A,B", help=rows)
    command.add_argument("--json", metavar="FILE", help="save the run there")
    if counted is not None:
        command.add_argument("--counted", action="store_true", help=counted)
    _add_native(command)
    command.set_defaults(run=run)
    return command


def _add_rest(commands) -> None:
    report = commands.add_parser("report", help="show a saved run")
    report.add_argument("file", metavar="FILE")
    report.add_argument("--page", metavar="FILE", help="write an HTML page there")
    report.set_defaults(run=command_report)
    test = commands.add_parser("test", help="run the tests")
    test.add_argument("what", nargs="?", default="all", choices=testing.FOLDERS)
    test.add_argument("arguments", nargs="*", help="for pytest, after --")
    test.set_defaults(run=command_test)
    check = commands.add_parser("check", help="run linters, unit tests and one build")
    check.add_argument("--kernel", default=NEWEST)
    check.set_defaults(run=command_check)
    proofs = commands.add_parser("verify", help="run every proof")
    proofs.add_argument("--short", action="store_true", help="only those of make test")
    reviewed = "record that the copies were compared with the changed functions"
    proofs.add_argument("--reviewed", action="store_true", help=reviewed)
    proofs.set_defaults(run=command_verify)
    faults = commands.add_parser("mutants", help="seed faults that the proofs must find")
    faults.add_argument("--files", metavar="A,B", help="only of these sources")
    sixteen = "N mutants drawn at random, with less effort for each"
    number = positive(int)
    faults.add_argument("--sample", type=number, default=0, metavar="N", help=sixteen)
    faults.add_argument("--seed", type=int, metavar="N", help="of the sample")
    share = "the share that must be killed"
    goal = positive(float)
    faults.add_argument("--goal", type=goal, default=0.9, metavar="X", help=share)
    faults.set_defaults(run=command_mutants)
    rough = commands.add_parser("abuse", help="play random sequences on a tap in use")
    rough.add_argument("--kernel", default=NEWEST)
    rough.add_argument("--seed", type=positive(int), default=1, metavar="N")
    rough.add_argument("--sequences", type=positive(int), default=300, metavar="N")
    rough.add_argument("--json", metavar="FILE", help="append the result to FILE")
    rough.set_defaults(run=command_abuse)
    more = commands.add_parser("again", help="one scenario many times in one boot")
    more.add_argument("scenario", metavar="MODULE.FUNCTION")
    more.add_argument("--kernel", default=NEWEST)
    more.add_argument("--times", type=positive(int), default=20, metavar="N")
    more.set_defaults(run=command_again)
    long = commands.add_parser("soak", help="run mixed traffic for a long time")
    long.add_argument("--kernel", default=NEWEST)
    long.add_argument("--minutes", type=positive(float), default=30, metavar="N")
    long.add_argument("--json", metavar="FILE", help="save the result there")
    long.set_defaults(run=command_soak)
    patches = commands.add_parser("series", help="build and check the kernel patches")
    sources = [*series.KERNELS]
    patches.add_argument("--kernel", default=sources[0], choices=sources)
    patches.add_argument("--out", metavar="DIR", help="default: out/series/")
    boot = "play its selftests in a VM, on the newest kernel"
    patches.add_argument("--boot", action="store_true", help=boot)
    patches.set_defaults(run=command_series)
    deb = commands.add_parser("deb", help="build the Debian packages")
    where = vm.REPOSITORY / "out"
    deb.add_argument("--out", metavar="DIR", default=str(where), help="default: out/")
    deb.set_defaults(run=command_deb)
    clean = commands.add_parser("clean", help="empty the cache")
    clean.set_defaults(run=command_clean)


def parser() -> argparse.ArgumentParser:
    names = ", ".join(kernel.name for kernel in KERNELS)
    top = argparse.ArgumentParser(
        prog="python3 -m lab", description=__doc__, epilog=f"kernels: {names}"
    )
    commands = top.add_subparsers(required=True, metavar="SUBCOMMAND")
    demo = "a few rows as a table, in a few minutes"
    _add_measuring(commands, "demo", demo, 1.5, command_demo)
    bench = "measure every row and check the figures it must reach"
    counted = "the clock counts instructions, 1 ns each: a busy host does not matter"
    command = _add_measuring(
        commands, "bench", bench, 3.0, command_bench, counted=counted
    )
    further = "--native: go on, for N minutes at most, until each ratio is known to 3 %%"
    command.add_argument(
        "--minutes", type=float, default=30, metavar="N", help=further
    )
    apps = "measure VPN programs of the distribution, unmodified"
    _add_measuring(commands, "apps", apps, 12.0, command_apps, counted=counted)
    depth = "measure latency and throughput of shorter rings"
    _add_measuring(commands, "depth", depth, 3.0, command_depth)
    price = "count instructions per packet on one CPU"
    _add_measuring(commands, "cost", price, 3.0, command_cost, rounds=1)
    _add_shell(commands)
    _add_build(commands)
    _add_rest(commands)
    return top


def main() -> int:
    options = parser().parse_args()
    # On SIGTERM, clean up as on any other exit.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
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
    except KeyboardInterrupt:
        print("lab: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
