# SPDX-License-Identifier: GPL-2.0-or-later
"""What is compared: the variants of the driver, by their names."""

from __future__ import annotations

from dataclasses import dataclass

VARIANTS = ("stock", "upstream", "sluice")
SERIES = "series"  # the drivers that make series patches, without the module
SLOTS = "slots"  # those after its first two patches, and IFF_BACKPRESSURE set
PATCHED = (SERIES, SLOTS)


@dataclass(frozen=True)
class Variant:
    base: str  # one of VARIANTS or PATCHED
    ring: int | None = None  # txqueuelen, if it is not the default
    target_us: int | None = None  # of sluice, if it is not the row's; of SERIES: 0

    @property
    def drivers(self) -> str:
        """The folder of its patched drivers; empty for the kernel's own."""
        if self.base not in PATCHED:
            return ""
        return self.base if self.target_us is None else f"{self.base}@{self.target_us}"

    @property
    def sets_flag(self) -> bool:
        """Whether its readers ask for IFF_BACKPRESSURE."""
        return self.base in ("upstream", SLOTS)


def parse_variant(name: str) -> Variant:
    """From "stock", "stock-50" (with this txqueuelen) or "sluice@2000"."""
    base, _, ring = name.partition("-")
    base, _, target = base.partition("@")
    return Variant(base, int(ring) if ring else None, int(target) if target else None)
