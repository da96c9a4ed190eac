# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian packages: built and looked at by lintian, inside a root."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.cache import cache_dir, cached, digest, digest_files
from lab.machines import build
from lab.machines.chroot import Root, must_run_in_root
from lab.machines.matrix import kernel_named
from lab.machines.roots import ensure_root
from lab.machines.vm import REPOSITORY
from lab.setup import say
from sluice import VERSION

BUILDER = "6.12"  # the kernel whose root, and so whose suite, builds
TOOLS = ("debhelper", "dh-python", "lintian")
# What the packages are made from.
SOURCES = ("README.md", "bin", "debian", "docs", "kmod", "man", "packaging", "sluice")
# Nothing is compiled: build-essential, which it would ask for, is not needed.
BUILD = "dpkg-buildpackage --build=binary --no-sign --no-check-builddeps"
LINTIAN = "lintian --allow-root --fail-on error --tag-display-limit 0 ../*.changes"


def package_sources() -> list[Path]:
    """The files the packages are made from: not what a run or a build leaves."""
    top = [REPOSITORY / name for name in SOURCES]
    found = [path for one in top for path in (one, *one.rglob("*"))]
    return sorted(
        path
        for path in found
        if path.is_file()
        and path.suffix not in (".pyc", ".ko", ".o", ".mod", ".cmd")
        and not path.name.endswith(".mod.c")
        and "ansible" not in path.parts
    )


def _key(sources: list[Path], builder: str) -> str:
    parts: list[bytes | str] = [builder, BUILD, LINTIAN]
    for path in sources:
        mode = "x" if path.stat().st_mode & 0o100 else "-"
        parts += [str(path.relative_to(REPOSITORY)), mode, path.read_bytes()]
    return digest(*parts)


def _run(root: Root, work: Path, command: str) -> str:
    say(f"+ {command}")
    failure = f"{command.split()[0]}: fails"
    return must_run_in_root(root, work, f"cd tree; {command}", failure, "correct it")


def ensure_packages() -> list[Path]:
    root = ensure_root(kernel_named(BUILDER), extra=TOOLS)
    sources = package_sources()
    final = cache_dir() / "packages" / _key(sources, root.key)
    with cached(final) as work:
        if work:
            # As Debian's tools want it: with debian/ at its top.
            build.copy_files(sources, REPOSITORY, work / "tree")
            _run(root, work, BUILD)
            (work / "lintian.log").write_text(_run(root, work, LINTIAN))
            shutil.rmtree(work / "tree")
    return sorted(final.glob("*.deb"))


# Compiles the module in the place and with the options of DKMS, so that ccache has the
# objects: an emulated compiler takes minutes. Debian's headers use ccache if asked to.
_COMPILE = """
busybox mount -t tmpfs dkms /var/lib/dkms
there=/var/lib/dkms/sluice/{version}/build
mkdir -p $there
cp -r /mnt/source/. $there
export DEBIAN_KERNEL_USE_CCACHE=1 CCACHE_DIR=/mnt/ccache CCACHE_SLOPPINESS=locale
make KERNELRELEASE={release} -C /lib/modules/{release}/build M=$there
"""


def ensure_compiled(root: Root) -> Path:
    """A ccache directory with the module's objects for this root's kernel."""
    sources = build.source_files(build.KMOD)
    key = digest(root.key, VERSION, _COMPILE, digest_files(sources))
    final = cache_dir() / "compiled" / f"{root.release}-{key}"
    script = _COMPILE.format(version=VERSION, release=root.release)
    failure = f"kernel {root.kernel}: the module does not build with ccache"
    with cached(final) as work:
        if work:
            shutil.copytree(build.KMOD, work / "source")
            must_run_in_root(root, work, script, failure, "correct it")
    return final / "ccache"


def stage(root: Root, output: Path) -> None:
    """What the guest needs to try the packages, in its /out."""
    folder = output / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    for package in ensure_packages():
        shutil.copy(package, folder)
    shutil.copytree(ensure_compiled(root), output / "ccache", dirs_exist_ok=True)
    build.stage(root, output)
