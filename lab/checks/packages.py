# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian packages: built and looked at by lintian, inside a root."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.machines import build
from lab.machines.chroot import Root
from lab.machines.matrix import kernel_named
from lab.machines.roots import ensure_root
from lab.machines.vm import REPOSITORY
from sluice import VERSION

BUILDER = "6.12"  # the kernel whose root, and so whose suite, builds
TOOLS = ("debhelper", "dh-python", "lintian")
# What the packages are made from.
SOURCES = ("README.md", "bin", "debian", "docs", "kmod", "man", "packaging", "sluice")
# Nothing is compiled: build-essential, which it would ask for, is not needed.
BUILD = """
cd tree
dpkg-buildpackage --build=binary --no-sign --no-check-builddeps
lintian --allow-root --fail-on error --tag-display-limit 0 ../*.changes
rm -r ../tree
"""


def package_files() -> build.Files:
    """What the packages are made from, by its place: not what a run or a build leaves."""
    top = [REPOSITORY / name for name in SOURCES]
    return {
        str(path.relative_to(REPOSITORY)): path
        for path in sorted(path for one in top for path in (one, *one.rglob("*")))
        if path.is_file()
        and path.suffix not in (".pyc", ".ko", ".o", ".mod", ".cmd")
        and not path.name.endswith(".mod.c")
        and "ansible" not in path.parts
    }


def ensure_packages() -> list[Path]:
    root = ensure_root(kernel_named(BUILDER), extra=TOOLS)
    # As Debian's tools want it: with debian/ at its top.
    files: build.Files = {f"tree/{name}": path for name, path in package_files().items()}
    final = build.build_in_root(root, "packages/deb", files, BUILD, "debian/")
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
    files = build.files_of(build.KMOD, "source/")
    script = _COMPILE.format(version=VERSION, release=root.release)
    place, what = f"compiled/{root.release}", "kmod/, with ccache"
    return build.build_in_root(root, place, files, script, what) / "ccache"


def stage(root: Root, output: Path) -> None:
    """What the guest needs to try the packages, in its /out."""
    folder = output / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    for package in ensure_packages():
        shutil.copy(package, folder)
    shutil.copytree(ensure_compiled(root), output / "ccache", dirs_exist_ok=True)
    build.stage(root, output)
