# SPDX-License-Identifier: GPL-2.0-or-later
"""The machines and their kernels, as data: one line for each kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from lab.failure import UsageError

MEMORY_MB = 2048
NEWEST = "newest"  # a release that lab/machines/suites.py finds


@dataclass(frozen=True)
class Arch:
    """A machine whose kernels the lab boots: what differs from the others."""

    name: str  # Debian's
    emulator: str  # QEMU's command
    emulator_package: str
    machine: str  # QEMU's model of the board
    cpu: str  # QEMU's model of the CPU, without KVM
    console: str = "ttyAMA0"
    cmdline: str = ""  # of the kernel, what only this machine has
    linux: str = ""  # the kernel's name of it, if its compiler is not the host's own
    triplet: str = ""  # of that compiler

    @property
    def compiler(self) -> str:
        """What names of the compiler's tools begin with."""
        return f"{self.triplet}-" if self.triplet else ""

    @property
    def make(self) -> str:
        """Arguments of make, for the kernel and its modules."""
        own = f"ARCH={self.linux} CROSS_COMPILE={self.compiler}"
        return own if self.triplet else ""

    @property
    def compiler_packages(self) -> tuple[str, ...]:
        own = (f"gcc-{self.triplet}", f"libc6-dev-{self.name}-cross")
        return own if self.triplet else ()


# Not QEMU's "max", which the kernel copies byte by byte on (docs/bench.md). AES is the
# host's own: with it a VPN's AES-256-GCM was 8.5 times as fast.
_EMULATED_X86 = "qemu64,+ssse3,+sse4_1,+sse4_2,+popcnt,+smap,+smep,+aes,+pclmulqdq"

HOST = Arch(
    name="amd64",
    emulator="qemu-system-x86_64",
    emulator_package="qemu-system-x86",
    machine="q35",
    cpu=_EMULATED_X86,
    console="ttyS0",
    cmdline="no5lvl tsc=reliable",
)
ARM64 = Arch(
    name="arm64",
    linux="arm64",
    triplet="aarch64-linux-gnu",
    emulator="qemu-system-aarch64",
    emulator_package="qemu-system-arm",
    machine="virt,gic-version=3",
    cpu="cortex-a72",
)
ARMHF = Arch(
    name="armhf",
    linux="arm",
    triplet="arm-linux-gnueabihf",
    emulator="qemu-system-arm",
    emulator_package="qemu-system-arm",
    machine="virt,highmem=off",  # a kernel without LPAE reaches 4 GB
    cpu="cortex-a15",
)


@dataclass(frozen=True)
class Kernel:
    name: str
    suite: str
    extra_suites: tuple[str, ...]  # further suites of the same mirror
    release: str  # what follows linux-image- and linux-headers-, or linux-source-
    pins: tuple[str, ...] = ()  # packages that must come from elsewhere
    often: bool = True  # make test-more plays it; if not, only make test-all
    applications: bool = False  # its scenarios have the programs of make apps
    configs: tuple[str, ...] = ()  # of lab/machines/configs: built from linux-source
    arch: Arch = HOST
    native: bool = False  # User-Mode Linux: a process at the CPU's own speed
    clang: bool = False  # built with clang, and its modules are
    debug: bool = False  # it watches itself: slower, larger, for make debug
    module: bool = True  # sluice.ko can be loaded there
    only: tuple[str, ...] = ()  # of its scenarios these files; all if none is named
    series: str = ""  # of the newest only these: "7.2"
    version: str = ""  # of its package, once it is found; or a digest of its tree
    tree: Path | None = None  # its source, if that is the user's, see kernels.kernel_of()
    config: Path | None = None  # and the configuration of that

    @property
    def memory_mb(self) -> int:
        return MEMORY_MB + MEMORY_MB // 2 * self.debug

    @property
    def patience(self) -> int:
        """How many times as long as others it may take."""
        if self.debug:
            return 5
        return 1 if self.arch is HOST else 2  # without KVM on any machine

    @property
    def packets_divisor(self) -> int:
        """By how much a scenario may divide its packets, see Env.fewer()."""
        return self.patience**2 if self.debug and not self.native else self.patience

    @property
    def packages(self) -> tuple[str, ...]:
        if self.configs:
            return ()
        parts = ("image", "headers")
        return tuple(f"?name(^linux-{part}-{self.release}$)" for part in parts)


_UPDATES = ("trixie-updates",)
_BACKPORTS = ("trixie-updates", "trixie-backports")
_BASE = ("linux-base/trixie-backports",)
BUILTIN = ("guest", "qemu", "scenarios", "builtin")
_DEBUG = (*BUILTIN, "debug")
_RACES = (*BUILTIN, "kcsan")
_NATIVE = ("guest", "scenarios", "native")
_NATIVE_DEBUG = (*_NATIVE, "debug", "native_debug")
_NATIVE_RACES = (*_NATIVE, "kcsan", "native_kcsan")
_BASIC = ("dead_reader", "full_ring", "loading", "vhost")
_CLANG_6_12 = (*BUILTIN, "cfi_clang", "clang")
_CLANG_NEWEST = (*BUILTIN, "cfi", "clang")

# A suite keeps many versions of its own kernel: its metapackage, named without a
# version, chooses the newest. Of backports the newest is found when its root is built;
# every series there can be asked for by its number.
# Mirrors may lack the index of trixie-updates for armhf.
KERNELS = (
    Kernel("5.10", "bullseye", (), "amd64"),
    Kernel("6.1", "bookworm", ("bookworm-updates",), "amd64", often=False),
    Kernel("6.12", "trixie", _UPDATES, "amd64"),
    Kernel("6.12-builtin", "trixie", _UPDATES, "6.12", often=False, configs=BUILTIN),
    Kernel("6.12-frames", "trixie", _UPDATES, "6.12", often=False,
           configs=(*BUILTIN, "frames")),
    Kernel("6.12-arm64", "trixie", _UPDATES, "arm64", often=False, arch=ARM64),
    Kernel("5.10-arm64", "bullseye", (), "arm64", often=False, arch=ARM64,
           only=_BASIC),
    Kernel("6.12-armhf", "trixie", (), "armmp", often=False, arch=ARMHF,
           only=_BASIC),
    Kernel("6.12-clang", "trixie", _UPDATES, "6.12", often=False, configs=_CLANG_6_12,
           clang=True),
    Kernel("6.12-router", "trixie", _UPDATES, "6.12", often=False,
           configs=(*BUILTIN, "router"), module=False),
    Kernel(f"{NEWEST}-clang", "trixie", _BACKPORTS, NEWEST, often=False,
           configs=_CLANG_NEWEST, clang=True),
    Kernel(f"{NEWEST}-native", "trixie", _BACKPORTS, NEWEST, often=False,
           configs=_NATIVE, native=True),
    Kernel(f"{NEWEST}-native-debug", "trixie", _BACKPORTS, NEWEST,
           configs=_NATIVE_DEBUG, native=True, debug=True),
    Kernel(f"{NEWEST}-native-kcsan", "trixie", _BACKPORTS, NEWEST,
           configs=_NATIVE_RACES, native=True, debug=True),
    Kernel("6.12-debug", "trixie", _UPDATES, "6.12", configs=_DEBUG, debug=True),
    Kernel("6.12-kcsan", "trixie", _UPDATES, "6.12", configs=_RACES, debug=True),
    Kernel(f"{NEWEST}-debug", "trixie", _BACKPORTS, NEWEST, configs=_DEBUG, debug=True),
    Kernel(f"{NEWEST}-kcsan", "trixie", _BACKPORTS, NEWEST, configs=_RACES, debug=True),
    Kernel(NEWEST, "trixie", _BACKPORTS, NEWEST, _BASE, applications=True),
)
NATIVE = next(k for k in KERNELS if k.native)
PACKAGED = tuple(k for k in KERNELS if not k.configs and k.arch is HOST)
DEBUG = tuple(k for k in KERNELS if k.debug)


def kernel_named(name: str) -> Kernel:
    """A line of the table, or a series of the newest: 7.2, 7.3-debug."""
    known = {kernel.name: kernel for kernel in KERNELS}
    if name in known:
        return known[name]
    series = re.match(r"\d+\.\d+(?=-|$)", name)
    newest = known.get(name.replace(series[0], NEWEST, 1)) if series else None
    if series and newest:
        return replace(newest, series=series[0])
    names = ", ".join(known)
    raise UsageError(
        f"kernel {name}: not in the lab's table; choose {names}, or a series: 7.2"
    )
