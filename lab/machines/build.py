# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the module and the guest's C helpers, inside a kernel's root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from lab.cache import cache_dir, cached, digest, digest_files
from lab.failure import LabError
from lab.machines.chroot import Root, first_error, must_run_in_root, run_in_root
from lab.machines.roots import unpack
from lab.machines.vm import REPOSITORY
from lab.setup import say

KMOD = REPOSITORY / "kmod"
# Replace the module's files of these names on a kernel without ftrace.
NATIVE_FILES = REPOSITORY / "lab" / "machines" / "native" / "module"
KERNEL_READER = REPOSITORY / "lab" / "workloads" / "kernel_reader"
TESTS = REPOSITORY / "tests" / "kernel"
# Modules that only the scenarios load.
TEST_MODULES = tuple(sorted(kbuild.parent for kbuild in TESTS.glob("*/Kbuild")))
# The others change the driver's code, which takes ftrace, kprobes or live patches.
NATIVE_MODULES = (KERNEL_READER, TESTS / "fake_tun")
HELPER_FOLDERS = (REPOSITORY / "lab" / "workloads", TESTS)
HELPER_FLAGS = "-O2 -Wall -Wextra -Werror -pthread"

# Debian's 7.3 headers lack the script that asks whether sparse is there, and
# sparse 0.6.4 knows neither C23's typeof_unqual nor a constant strlen.
SPARSE = (
    "C=2 KBUILD_CHECKSRC=2 \"CF='-D__builtin_strlen(s)=(sizeof(s)-1)' "
    "-D__typeof_unqual__=__typeof__\""
)
KERNEL_SOURCE, SOURCE_SUITE = "linux-source-6.12", "trixie"
YNL_GENERATOR = "tools/net/ynl/ynl-gen-c.py"
YNL_SCHEMA = "Documentation/netlink/genetlink-c.yaml"
MEMORY_MODEL = "tools/memory-model"
RING = "include/linux/ptr_ring.h"
# What is taken of it, by its path there and in the cache.
KERNEL_FILES = {
    *(f"scripts/{one}" for one in ("checkpatch.pl", "spelling.txt")),
    "scripts/const_structs.checkpatch",
    # Its client of netlink families, its generator of headers, their specs' schema.
    *("tools/net/ynl/cli.py", YNL_GENERATOR, YNL_SCHEMA),
    *(f"tools/net/ynl/lib/{one}.py" for one in ("__init__", "nlspec", "ynl")),
    # Its memory model, and the ring of the stock driver.
    *(f"{MEMORY_MODEL}/linux-kernel.{end}" for end in ("bell", "cat", "cfg", "def")),
    *(f"{MEMORY_MODEL}/lock.cat", RING),
}
# Alignment inside the kernel's own tracing macros, which checkpatch misreads; what the
# kernel's own generator writes has longer lines.
CHECKPATCH_SPARED = ("trace.h", "policy.h")
_WARNING = re.compile(
    r"^(?P<file>[^\s:]+):(\d+.*\b(warning|error)| warning: objtool|(?<=ld:) warning):"
)


def source_files(source: Path) -> list[Path]:
    """The files a module is built from, without the products of a build."""
    wanted = (".c", ".h", ".S", ".sh", ".mk")
    return sorted(
        path
        for path in source.rglob("*")
        if (path.suffix in wanted and not path.name.endswith(".mod.c"))
        or path.name in ("Kbuild", "Makefile")
    )


def copy_files(paths: list[Path], source: Path, target: Path) -> None:
    """Files of one folder to the same places in another."""
    for path in paths:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


def copy_source(source: Path, target: Path) -> None:
    copy_files(source_files(source), source, target)


def _make(root: Root, *arguments: str) -> str:
    tree = f"/usr/src/linux-headers-{root.release}"
    options = " ".join([root.arch.make, root.make, *arguments])
    return f"make -C {tree} M=/mnt -j{os.cpu_count() or 1} {options} modules"


def parse_warnings(log: str) -> list[str]:
    """The lines that complain about the module's own files."""
    return [
        line.strip()
        for line in log.splitlines()
        if (found := _WARNING.match(line.strip().removeprefix("/mnt/")))
        and not found["file"].startswith(("/", "./", "include/"))
    ]


def build_module(root: Root, source: Path = KMOD) -> Path:
    """The module for this root's kernel: from the cache, or built now."""
    natives = NATIVE_FILES.iterdir() if root.native else ()
    replacements = [path for path in natives if (source / path.name).exists()]
    key = digest(root.key, digest_files([*source_files(source), *replacements]))
    final = cache_dir() / "modules" / f"{root.release}-{key}"
    with cached(final) as work:
        if work:
            copy_source(source, work)
            for path in replacements:
                shutil.copyfile(path, work / path.name)
            failure = f"{source.name}/: does not build for {root.release}"
            must_run_in_root(root, work, _make(root), failure, "correct it")
    return min(final.glob("*.ko"))


def check_module(root: Root, source: Path = KMOD) -> list[str]:
    """Build with W=1 and sparse: what they complain about."""
    with tempfile.TemporaryDirectory(prefix="sluice-check-") as name:
        copy_source(source, Path(name))
        status, log = run_in_root(root, Path(name), _make(root, "W=1", SPARSE))
    return parse_warnings(log) or ([first_error(log)] if status != 0 else [])


def kernel_files() -> Path:
    """Where KERNEL_FILES are once they were unpacked."""
    return cache_dir() / "kernel-files" / KERNEL_SOURCE


def ensure_kernel_files() -> Path:
    with cached(kernel_files()) as work:
        if work:
            say(f"{KERNEL_SOURCE}: unpacking what is used of it (1 minute)")
            unpack(KERNEL_SOURCE, SOURCE_SUITE, (KERNEL_SOURCE,), work / "tree")
            (archive,) = work.glob("tree/usr/src/*.tar.xz")
            with tarfile.open(archive) as source:
                for member in source:
                    member.name = member.name.partition("/")[2]
                    if member.name in KERNEL_FILES:
                        source.extract(member, work, filter="data")
            shutil.rmtree(work / "tree")
    return kernel_files()


def check_style(sources: list[Path]) -> list[str]:
    command = ["perl", str(ensure_kernel_files() / "scripts/checkpatch.pl")]
    # CAMELCASE: struct Qdisc is the kernel's own name
    command += ["--no-tree", "--strict", "--ignore", "CAMELCASE"]
    command += ["--terse", "--no-summary", "--show-types", "-f"]
    command += [str(path) for path in sources if path.suffix in (".c", ".h")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.stderr.strip():
        raise LabError(f"checkpatch: {done.stderr.strip().splitlines()[0]}")
    return [
        line
        for line in done.stdout.splitlines()
        if not line.partition(":")[0].endswith(CHECKPATCH_SPARED)
    ]


def complaints(root: Root) -> list[str]:
    """What there is to correct in the module, of its compiler and of its style."""
    return check_module(root) + check_style(source_files(KMOD))


def build_helpers(root: Root) -> Path:
    """The directory of the C helpers, named as their sources without .c."""
    files = sorted(path for folder in HELPER_FOLDERS for path in folder.glob("*.[ch]"))
    files += KERNEL_READER.glob("*.h")
    key = digest(root.key, HELPER_FLAGS, digest_files(files))
    final = cache_dir() / "helpers" / f"{root.kernel}-{key}"
    compiler = f"{root.arch.compiler}gcc {HELPER_FLAGS} -static"
    with cached(final) as work:
        if work:
            for path in files:
                shutil.copyfile(path, work / path.name)
            names = [path.stem for path in files if path.suffix == ".c"]
            script = "\n".join(f"{compiler} -o {name} {name}.c" for name in names)
            failure = f"C helpers: do not build for kernel {root.kernel}"
            must_run_in_root(root, work, script, failure, "correct them")
    return final


def stage(root: Root, output: Path) -> None:
    """Build what the guest needs into its /out, where lab.guest.env.GuestEnv finds it."""
    output.mkdir(parents=True, exist_ok=True)
    for source in (KMOD, *(NATIVE_MODULES if root.native else TEST_MODULES)):
        shutil.copy(build_module(root, source), output)
    shutil.copytree(build_helpers(root), output / "bin", dirs_exist_ok=True)
