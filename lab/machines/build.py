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
KERNEL_SOURCE = "linux-source-6.12"
YNL_GENERATOR = "tools/net/ynl/ynl-gen-c.py"
YNL_SCHEMA = "Documentation/netlink/genetlink-c.yaml"
# What is taken of it: the ends of the paths there, which are the paths in the cache.
KERNEL_FILES = {
    "checkpatch": ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch"),
    # Its client of netlink families, its generator of headers, their specs' schema.
    "netlink": (
        *("tools/net/ynl/cli.py", YNL_GENERATOR, YNL_SCHEMA),
        *(f"tools/net/ynl/lib/{one}.py" for one in ("__init__", "nlspec", "ynl")),
    ),
    # Its memory model, and the ring of the stock driver.
    "memory-model": (
        *(f"linux-kernel.{end}" for end in ("bell", "cat", "cfg", "def")),
        *("lock.cat", "ptr_ring.h"),
    ),
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


def parse_unchecked(log: str, sources: list[Path]) -> list[str]:
    """The sources that sparse did not check."""
    checked = re.findall(r"^\s*CHECK\s+(\S+)$", log, re.MULTILINE)
    names = {Path(path).name for path in checked}
    return [p.name for p in sources if p.suffix == ".c" and p.name not in names]


def build_module(root: Root, source: Path = KMOD) -> Path:
    """The module for this root's kernel: from the cache, or built now."""
    replacements = [
        path
        for path in NATIVE_FILES.iterdir()
        if root.native and (source / path.name).exists()
    ]
    key = digest(root.key, digest_files([*source_files(source), *replacements]))
    final = cache_dir() / "modules" / f"{root.release}-{key}"
    with cached(final) as work:
        if work:
            copy_source(source, work)
            for path in replacements:
                shutil.copyfile(path, work / path.name)
            failure = f"{source.name}/: does not build for {root.release}"
            must_run_in_root(root, work, _make(root), failure, "correct it")
    modules = sorted(final.glob("*.ko"))
    if not modules:
        raise LabError(f"{final}: the build left no .ko; see its Kbuild file")
    return modules[0]


def check_module(root: Root, source: Path = KMOD) -> list[str]:
    """Build with W=1 and sparse: what they complain about."""
    with tempfile.TemporaryDirectory(prefix="sluice-check-") as name:
        copy_source(source, Path(name))
        status, log = run_in_root(root, Path(name), _make(root, "W=1", SPARSE))
    warnings = parse_warnings(log)
    unchecked = parse_unchecked(log, source_files(source))
    warnings += [f"{name}: sparse did not look at it" for name in unchecked]
    return warnings or ([first_error(log)] if status != 0 else [])


def kernel_files(what: str) -> Path:
    """Where some of KERNEL_FILES are once they were fetched."""
    return cache_dir() / what / KERNEL_SOURCE


def ensure_kernel_files(root: Root, what: str) -> Path:
    """Fetched, if need be; the root is one of KERNEL_SOURCE's suite."""
    final = kernel_files(what)
    script = (
        "apt-get -qq update; "
        f"apt-get -qq -o APT::Sandbox::User=root download {KERNEL_SOURCE}; "
        "dpkg-deb -x *.deb package; rm *.deb"
    )
    with cached(final) as work:
        if work:
            say(f"fetching {what} from {KERNEL_SOURCE} (1 minute)")
            failure = f"{KERNEL_SOURCE}: cannot be fetched"
            must_run_in_root(root, work, script, failure, "check the network")
            (archive,) = work.glob("package/usr/src/*.tar.xz")
            with tarfile.open(archive) as source:
                for member in source:
                    for name in KERNEL_FILES[what]:
                        if member.name.endswith(f"/{name}"):
                            member = member.replace(name=name)
                            source.extract(member, work, filter="data")
            shutil.rmtree(work / "package")
    return final


def check_style(root: Root, sources: list[Path]) -> list[str]:
    files = ensure_kernel_files(root, "checkpatch")
    command = ["perl", str(files / "checkpatch.pl"), "--no-tree", "--strict"]
    # CAMELCASE: struct Qdisc is the kernel's own name
    command += ["--terse", "--no-summary", "--show-types", "--ignore", "CAMELCASE", "-f"]
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
    return check_module(root) + check_style(root, source_files(KMOD))


def build_helpers(root: Root) -> Path:
    """The directory of the C helpers, named as their sources without .c."""
    files = sorted(path for folder in HELPER_FOLDERS for path in folder.glob("*.[ch]"))
    files += KERNEL_READER.glob("*.h")
    key = digest(root.key, HELPER_FLAGS, digest_files(files))
    final = cache_dir() / "helpers" / f"{root.kernel}-{key}"
    failure = f"C helpers: do not build for kernel {root.kernel}"
    with cached(final) as work:
        if work:
            for path in files:
                shutil.copyfile(path, work / path.name)
            sources = [path for path in files if path.suffix == ".c"]
            script = "\n".join(_compile(root, path.stem) for path in sources)
            must_run_in_root(root, work, script, failure, "correct them")
    return final


def _compile(root: Root, name: str) -> str:
    return f"{root.arch.compiler}gcc {HELPER_FLAGS} -static -o {name} {name}.c"


def stage(root: Root, output: Path) -> None:
    """Build what the guest needs into its /out, where lab.guest.env.GuestEnv finds it."""
    output.mkdir(parents=True, exist_ok=True)
    for source in (KMOD, *(NATIVE_MODULES if root.native else TEST_MODULES)):
        shutil.copy(build_module(root, source), output)
    shutil.copytree(build_helpers(root), output / "bin", dirs_exist_ok=True)
