# SPDX-License-Identifier: GPL-2.0-or-later
"""The module builds for every architecture whose kernel headers Debian has, or Kbuild
says what is missing.

One root per kernel has this machine's build tools, Debian's cross compilers and the
headers of all these architectures; nothing is booted.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.machines import roots
from lab.machines.build import KMOD, copy_source, parse_warnings
from lab.machines.chroot import Root, run_in_root
from lab.machines.matrix import HOST, NEWEST, Kernel, kernel_named
from lab.machines.suites import find_kernel, read_mirror, version_order


@dataclass(frozen=True)
class Target:
    arch: str  # Debian's name
    flavour: str  # how its headers' package ends
    compiler: str  # the package of the cross compiler
    kernels: tuple[str, ...] = ("6.12", NEWEST)


TARGETS = (
    Target("amd64", "amd64", "gcc"),
    Target("arm64", "arm64", "gcc-aarch64-linux-gnu"),
    Target("armhf", "armmp", "gcc-arm-linux-gnueabihf"),
    # Debian 12 is the last that has a kernel for it.
    Target("i386", "686-pae", "gcc-i686-linux-gnu", ("6.1",)),
    Target("ppc64el", "powerpc64le", "gcc-powerpc64le-linux-gnu"),
    Target("riscv64", "riscv64", "gcc-riscv64-linux-gnu"),
    Target("s390x", "s390x", "gcc-s390x-linux-gnu"),
)
# Headers of the next suite ask for its compiler.
_COMPILER = "'CC=$(CROSS_COMPILE)gcc'"
# Of the next suite's headers, if this suite's compiler lacks one of their options.
TOO_OLD = "gcc does not compile this kernel's headers"

# A mirror may lack an architecture's index of backports, which makes apt refuse that
# suite for all, or a package that its index has: each target is asked for by itself, and
# gets the newest release that can be fetched; of NEWEST one of the next suite, whose
# index may be past its date, if there is no other.
NEXT_SUITE = "forky"
_HEADERS = r"""
echo "{source}" >/etc/apt/sources.list.d/next.list
for target in {targets}; do
    flavour=${{target%:*}} options=
    for option in APT::Architectures::={host} APT::Architectures::=${{target#*:}} \
            APT::Sandbox::User=root Acquire::Check-Valid-Until=false; do
        options="$options -o $option"
    done
    apt-get -qq $options update || true
    for release in $(apt-cache $options pkgnames linux-headers-{series} | sort -rV |
            sed -n "s/^linux-headers-\([0-9.]*[+-][0-9a-z]*\)-$flavour\$/\1/p"); do
        apt-get -qq $options download linux-headers-$release-$target || continue
        [ -e /usr/src/linux-headers-$release-common ] || apt-get -qq $options \
            download linux-headers-$release-common linux-kbuild-$release
        break
    done
done
for package in *.deb; do
    dpkg-deb --fsys-tarfile $package | tar -x -C / --keep-directory-symlink
done
"""


def headers_of(root: Root, target: Target) -> Path | None:
    wanted = re.compile(rf"linux-headers-[0-9.]+[+-][0-9a-z]+-{target.flavour}")
    folders = (root.path / "usr/src").iterdir()
    found = [path for path in folders if wanted.fullmatch(path.name)]
    return max(found, key=lambda path: version_order(path.name), default=None)


def ensure_cross_root(kernel: Kernel) -> Root:
    """Where all architectures' modules are built: from the cache, or made now."""
    newest = kernel.name == NEWEST
    targets = [target for target in TARGETS if kernel.name in target.kernels]
    kernel = find_kernel(kernel)  # which names the newest by its series
    tools = (*roots.TOOLS, "kmod", "python3", *(one.compiler for one in targets))
    headers = f"?name(^linux-headers-{kernel.release}$)"
    recipe = roots.recipe_of(kernel, (*kernel.pins, headers), tools)
    what = f"kernel {kernel.name}, headers and compilers of all architectures"
    foreign = [f"{one.flavour}:{one.arch}" for one in targets if one.arch != HOST.name]
    script = _HEADERS.format(
        host=HOST.name,
        targets=" ".join(foreign),
        series=kernel.name.split(".")[0] + "." if newest else f"{kernel.name}.",
        source=f"deb {read_mirror()} {NEXT_SUITE} main" if newest else "",
    )
    return roots.ensure_made(kernel, f"cross/{kernel.name}", what, recipe, script)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        pytest.param(target, name, id=f"{target.arch}-{name}")
        for target in TARGETS
        for name in target.kernels
    ],
)
def test_module_builds(pytestconfig: pytest.Config, target: Target, name: str) -> None:
    if not pytestconfig.getoption("--every"):
        pytest.skip("needs the headers of all architectures; make test-all has them")
    root = ensure_cross_root(kernel_named(name))
    headers = headers_of(root, target)
    if headers is None:
        pytest.skip(f"linux-headers-...-{target.flavour}: the mirror does not have them")
    with tempfile.TemporaryDirectory(prefix="sluice-cross-") as folder:
        copy_source(KMOD, Path(folder))
        script = f"make -C /usr/src/{headers.name} M=/mnt {_COMPILER} modules"
        status, log = run_in_root(root, Path(folder), script)
        built = status == 0 and (Path(folder) / "sluice.ko").exists()
    refusal = re.search(r"^sluice: (.+); no module is built$", log, re.M)
    if refusal and name == NEWEST:
        assert TOO_OLD in refusal[1]
    else:
        assert built and not parse_warnings(log), log
