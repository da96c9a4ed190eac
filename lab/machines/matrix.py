# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels and the variants, as data: one line each."""

from __future__ import annotations

from dataclasses import dataclass

from lab.errors import UsageError
from lab.machines.arch import ARM64, HOST, Arch
from lab.row import VARIANTS


__all__ = ["DEBUG", "KERNELS", "PACKAGED", "VARIANTS", "Kernel", "kernel_named"]

MEMORY_MB = 2048


@dataclass(frozen=True)
class Kernel:
    name: str
    suite: str
    extra_suites: tuple[str, ...]  # further suites of the same mirror
    release: str  # what follows linux-image- and linux-headers-, or linux-source-
    pins: tuple[str, ...] = ()  # packages that must come from elsewhere
    often: bool = True  # make test plays it; if not, only make test-all
    applications: bool = False  # its scenarios have the programs of make apps
    configs: tuple[str, ...] = ()  # of lab/machines/configs: built from linux-source
    arch: Arch = HOST
    debug: bool = False  # it watches itself: slower, larger, for make debug

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
    def packages(self) -> tuple[str, ...]:
        """The apt patterns of the kernel image and its headers."""
        if self.configs:
            return ()
        return tuple(
            f"?name(^linux-{part}-{self.release}$)"
            for part in ("image", "headers")
        )


_UPDATES = ("trixie-updates",)
_BACKPORTS = ("trixie-updates", "trixie-backports")
_NEWEST = r"7\.3\.[0-9]+\+deb13-amd64"
_BASE = ("linux-base/trixie-backports",)
_BUILTIN = ("builtin",)
_DEBUG = ("builtin", "debug")
_RACES = ("builtin", "kcsan")

# A suite keeps many versions of its own kernel: its metapackage, named
# without a version, chooses the newest. Backports keep one of each series.
KERNELS = (
    Kernel("5.10", "bullseye", (), "amd64"),
    Kernel("6.1", "bookworm", ("bookworm-updates",), "amd64", often=False),
    Kernel("6.12", "trixie", _UPDATES, "amd64"),
    Kernel("6.12-builtin", "trixie", _UPDATES, "6.12", often=False, configs=_BUILTIN),
    Kernel("6.12-arm64", "trixie", _UPDATES, "arm64", often=False, arch=ARM64),
    Kernel("6.12-debug", "trixie", _UPDATES, "6.12", configs=_DEBUG, debug=True),
    Kernel("6.12-kcsan", "trixie", _UPDATES, "6.12", configs=_RACES, debug=True),
    Kernel("7.3-debug", "trixie", _BACKPORTS, "7.3", configs=_DEBUG, debug=True),
    Kernel("7.3-kcsan", "trixie", _BACKPORTS, "7.3", configs=_RACES, debug=True),
    Kernel("7.3", "trixie", _BACKPORTS, _NEWEST, _BASE, applications=True),
)
PACKAGED = tuple(k for k in KERNELS if not k.configs and k.arch is HOST)
DEBUG = tuple(k for k in KERNELS if k.debug)


def kernel_named(name: str) -> Kernel:
    for kernel in KERNELS:
        if kernel.name == name:
            return kernel
    known = ", ".join(kernel.name for kernel in KERNELS)
    raise UsageError(f"kernel {name}: not in the lab's table; choose {known}")
