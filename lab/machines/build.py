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

from lab.cache import cache_dir, cached, digest
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

Files = dict[str, Path | str]  # where each is to be -> where it is, or its text


def source_files(source: Path) -> list[Path]:
    """The files a module is built from, without the products of a build."""
    wanted = (".c", ".h", ".S", ".sh", ".mk")
    return sorted(
        path
        for path in source.rglob("*")
        if (path.suffix in wanted and not path.name.endswith(".mod.c"))
        or path.name in ("Kbuild", "Makefile")
    )


def files_of(source: Path, place: str = "") -> Files:
    """The same, by their names in the source; place: what these begin with."""
    return {f"{place}{one.relative_to(source)}": one for one in source_files(source)}


def _copy(files: Files, target: Path) -> None:
    for name, content in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            (target / name).write_text(content)
        else:
            shutil.copy(content, target / name)


def copy_source(source: Path, target: Path) -> None:
    _copy(files_of(source), target)


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


def parse_unchecked(log: str, sources: list[Path]) -> list[str]:
    """The sources that sparse did not check."""
    checked = re.findall(r"^\s*CHECK\s+(\S+)$", log, re.MULTILINE)
    names = {Path(path).name for path in checked}
    return [p.name for p in sources if p.suffix == ".c" and p.name not in names]


def build_in_root(
    root: Root, place: str, files: Files, script: str, what: str
) -> Path:
    """Files, and what a script makes of them in the root: from the cache (place), or made
    now; what: to be told."""
    parts: list[bytes | str] = [root.key, script]
    for name, content in files.items():
        parts.append(name)
        if isinstance(content, str):
            parts.append(content)
        else:
            parts += [oct(content.stat().st_mode), content.read_bytes()]
    final = cache_dir() / f"{place}-{digest(*parts)}"
    with cached(final) as work:
        if work:
            say(f"{what}: building for kernel {root.kernel}")
            _copy(files, work)
            failure = f"{what}: does not build for kernel {root.kernel}"
            must_run_in_root(root, work, script, failure, "correct it")
    return final


def build_modules(root: Root, what: str, files: Files) -> list[Path]:
    """Modules for this root's kernel."""
    place = f"modules/{root.release}"
    return sorted(build_in_root(root, place, files, _make(root), what).glob("*.ko"))


def build_module(root: Root, source: Path = KMOD) -> Path:
    files = files_of(source)
    if root.native:
        files |= {p.name: p for p in NATIVE_FILES.iterdir() if p.name in files}
    return build_modules(root, f"{source.name}/", files)[0]


def check_module(root: Root, source: Path = KMOD) -> list[str]:
    """Build with W=1 and sparse: what they complain about."""
    with tempfile.TemporaryDirectory(prefix="sluice-check-") as name:
        copy_source(source, Path(name))
        status, log = run_in_root(root, Path(name), _make(root, "W=1", SPARSE))
    warnings = parse_warnings(log)
    unchecked = parse_unchecked(log, source_files(source))
    warnings += [f"{name}: sparse did not look at it" for name in unchecked]
    return warnings or ([first_error(log)] if status != 0 else [])


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
    paths = [path for folder in HELPER_FOLDERS for path in folder.glob("*.[ch]")]
    paths += KERNEL_READER.glob("*.h")
    files: Files = {path.name: path for path in sorted(paths)}
    compiler = f"{root.arch.compiler}gcc {HELPER_FLAGS} -static"
    names = [path.stem for path in paths if path.suffix == ".c"]
    script = "\n".join(f"{compiler} -o {name} {name}.c" for name in names)
    return build_in_root(root, f"helpers/{root.kernel}", files, script, "C helpers")


def stage(root: Root, output: Path) -> None:
    """Build what the guest needs into its /out, where lab.guest.env.GuestEnv finds it."""
    output.mkdir(parents=True, exist_ok=True)
    for source in (KMOD, *(NATIVE_MODULES if root.native else TEST_MODULES)):
        shutil.copy(build_module(root, source), output)
    shutil.copytree(build_helpers(root), output / "bin", dirs_exist_ok=True)
