# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the module for every architecture whose kernel headers Debian has.

One root per kernel has this machine's build tools, Debian's cross compilers and the
headers of all these architectures; nothing is booted.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.cache import cache_dir, cached, digest
from lab.failure import LabError
from lab.machines import roots
from lab.machines.arch import HOST
from lab.machines.build import KMOD, copy_source
from lab.machines.chroot import Root, run_in_root
from lab.machines.matrix import Kernel
from lab.machines.roots import read_release
from lab.machines.suites import find_kernel
from lab.setup import ensure_tools, say


@dataclass(frozen=True)
class Target:
    arch: str  # Debian's name
    flavour: str  # how its headers' package ends
    compiler: str  # the package of the cross compiler


TARGETS = (
    Target("amd64", "amd64", "gcc"),
    Target("arm64", "arm64", "gcc-aarch64-linux-gnu"),
    Target("armhf", "armmp", "gcc-arm-linux-gnueabihf"),
    Target("i386", "686-pae", "gcc-i686-linux-gnu"),
    Target("ppc64el", "powerpc64le", "gcc-powerpc64le-linux-gnu"),
    Target("riscv64", "riscv64", "gcc-riscv64-linux-gnu"),
    Target("s390x", "s390x", "gcc-s390x-linux-gnu"),
)
# Debian 13 has no kernel for i386 any more.
NOT_IN_DEBIAN = {("6.12", "i386"), ("newest", "i386")}
BUILT, REFUSED, ABSENT = "built", "refused", "not at the mirror"

_HEADERS = """
for arch in {arches}; do dpkg --add-architecture $arch; done
apt-get -qq update || true  # a mirror may lag behind for one; what matters is below
for package in {packages}; do
    apt-get -qq -o APT::Sandbox::User=root download $package || true
done
for package in *.deb; do dpkg -x $package /; done
"""
_BUILD = "make -C /usr/src/linux-headers-{release} M=/mnt modules"


def targets_of(kernel: Kernel) -> list[Target]:
    return [t for t in TARGETS if (kernel.name, t.arch) not in NOT_IN_DEBIAN]


def _recipe(kernel: Kernel) -> list[str]:
    tools = (*roots.TOOLS, "kmod", "python3")
    compilers = tuple(target.compiler for target in targets_of(kernel))
    headers = f"?name(^linux-headers-{kernel.release}$)"
    return roots.recipe_of(kernel, (*kernel.pins, headers), (*tools, *compilers))


def release_of(root: Root, target: Target) -> str:
    """The kernel's release, as that architecture's headers are called."""
    return root.release.removesuffix(HOST.name) + target.flavour


def _add_headers(root: Root, kernel: Kernel, work: Path) -> None:
    foreign = [t for t in targets_of(kernel) if t.arch != HOST.name]
    names = [f"linux-headers-{release_of(root, t)}:{t.arch}" for t in foreign]
    arches = " ".join(target.arch for target in foreign)
    script = _HEADERS.format(arches=arches, packages=" ".join(names))
    status, log = run_in_root(root, work, script)
    if status != 0:
        print(log)
        raise LabError(f"kernel {kernel.name}: no headers of {arches} (see above)")


def ensure_cross_root(kernel: Kernel) -> Root:
    """Where all architectures' modules are built: from the cache, or made now."""
    ensure_tools()
    kernel = find_kernel(kernel)
    recipe = _recipe(kernel)
    key = digest(json.dumps([recipe, kernel.extra_suites, kernel.version]), _HEADERS)
    final = cache_dir() / "cross" / f"{kernel.name}-{key}"
    with cached(final, f"cross-{kernel.name}") as work:
        if work:
            say(f"kernel {kernel.name}: headers and compilers of all architectures")
            tree = work / "tree"
            roots.bootstrap(kernel, recipe, tree)
            root = Root(kernel.name, tree, read_release(tree), "", key)
            (work / "debs").mkdir()
            _add_headers(root, kernel, work / "debs")
            shutil.rmtree(work / "debs")
    tree = final / "tree"
    return Root(kernel.name, tree, read_release(tree), package="", key=key)


def parse_refusal(log: str) -> str | None:
    """The line in which Kbuild names the missing feature."""
    found = re.search(r"^sluice: (this kernel's .+); no module is built$", log, re.M)
    return found[1] if found else None


def build(kernel: Kernel, target: Target) -> tuple[str, str]:
    """BUILT or REFUSED, and what the kernel offers or lacks."""
    root = ensure_cross_root(kernel)
    headers = f"linux-headers-{release_of(root, target)}"
    if not (root.path / "usr/src" / headers).exists():
        return ABSENT, headers
    with tempfile.TemporaryDirectory(prefix="sluice-cross-") as name:
        copy_source(KMOD, Path(name))
        script = _BUILD.format(release=release_of(root, target))
        status, log = run_in_root(root, Path(name), script)
        built = (Path(name) / "sluice.ko").exists()
    if status == 0 and built:
        found = re.search(r"^sluice: (this kernel has.*)$", log, re.M)
        return BUILT, found[1] if found else ""
    refusal = parse_refusal(log)
    if refusal:
        return REFUSED, refusal
    print(log)
    what = f"kernel {kernel.name}, {target.arch}"
    raise LabError(f"{what}: the module does not build (see above)")
