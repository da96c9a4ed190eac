# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's command: python3 -m lab SUBCOMMAND."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from lab import build, vm
from lab.errors import NO, LabError
from lab.matrix import KERNELS, kernel_named
from lab.roots import Root, ensure_root


def stage(root: Root, output: Path) -> dict:
    """Put what the guest needs into its output directory."""
    staged: dict[str, str | None] = {"module": None, "helpers": None}
    if build.source_files(build.KMOD):
        shutil.copy(build.build_module(root), output)
        staged["module"] = "/out/sluice.ko"
    if build.helper_sources():
        helpers = build.build_helpers(root)
        shutil.copytree(helpers, output / "bin", dirs_exist_ok=True)
        staged["helpers"] = "/out/bin"
    return staged


def command_shell(options: argparse.Namespace) -> int:
    root = ensure_root(kernel_named(options.kernel))
    with tempfile.TemporaryDirectory(prefix="sluice-lab-") as name:
        output = Path(options.out or name).absolute()
        output.mkdir(parents=True, exist_ok=True)
        staged = {} if options.bare else stage(root, output)
        machine = vm.Machine(root, output, options.cpus, options.memory)
        if options.exec is None:
            return vm.run_shell(machine)
        job = {"kind": "command", "argv": ["sh", "-c", options.exec], **staged}
        result = vm.run_job(machine, job, options.deadline)
        for line in result.trouble:
            print(f"lab: kernel: {line}", file=sys.stderr)
        if options.verbose:
            print(f"lab: {result.seconds:.1f} s", file=sys.stderr)
        return result.status or (NO if result.trouble else 0)


def command_build(options: argparse.Namespace) -> int:
    for kernel in options.kernels:
        root = ensure_root(kernel)
        print(build.build_module(root, Path(options.source).absolute()))
        if not options.check:
            continue
        check = build.check_module(root, Path(options.source).absolute())
        print("\n".join(check.warnings))
        if check.warnings:
            raise LabError(
                f"kernel {kernel.name}: {len(check.warnings)} complaints of "
                "the compiler and sparse (see above); mend them"
            )
    return 0


def _add_kernel(parser: argparse.ArgumentParser, default: str) -> None:
    names = ", ".join(kernel.name for kernel in KERNELS)
    parser.add_argument(
        "--kernel", default=default, help=f"one of {names} (default {default})"
    )


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python3 -m lab", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="SUBCOMMAND")

    shell = commands.add_parser("shell", help="a shell in a VM, or one command")
    _add_kernel(shell, "7.3")
    shell.add_argument("--exec", metavar="CMD", help="run CMD and power off")
    shell.add_argument("--out", metavar="DIR", help="the guest's /out, kept")
    shell.add_argument("--bare", action="store_true", help="build nothing first")
    shell.add_argument("--deadline", type=float, default=600, metavar="S")
    shell.add_argument("--cpus", type=int, default=vm.VCPUS, metavar="N")
    shell.add_argument("--memory", type=int, default=vm.MEMORY_MB, metavar="MB")
    shell.add_argument("--verbose", action="store_true", help="say how long")
    shell.set_defaults(run=command_shell)

    make = commands.add_parser("build", help="build the module")
    make.add_argument("--kernel", help="only for this kernel")
    make.add_argument("--source", default=str(build.KMOD), metavar="DIR")
    make.add_argument("--check", action="store_true", help="W=1 and sparse too")
    make.set_defaults(run=command_build)
    return top


def main() -> int:
    options = parser().parse_args()
    try:
        if "kernel" in options:
            name = options.kernel
            options.kernels = [kernel_named(name)] if name else KERNELS
        return options.run(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("lab: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
