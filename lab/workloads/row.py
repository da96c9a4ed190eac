# SPDX-License-Identifier: GPL-2.0-or-later
"""What a workload promises (Row) and what one run of it gives (Sample).

Every sample can be checked for conservation: what was sent is what was read,
dropped by the qdisc, dropped at the ring, or still held. `unaccounted` is the
rest and must be 0.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from lab.errors import LabError

VARIANTS = ("stock", "upstream", "sluice")


def ring_variant(ring: int) -> str:
    """Stock with another length of the ring: what operators do today."""
    return f"stock-{ring}"


def parse_variant(name: str) -> Tuple[str, Optional[int]]:
    """One of VARIANTS, and the length of the ring if it is not the default."""
    base, _, ring = name.partition("-")
    return base, int(ring) if ring else None


class WorkloadError(LabError):
    """The workload did not do its work: no number is better than a wrong one."""


class Skipped(Exception):
    """This kernel cannot run that variant; the text says what it lacks."""


@dataclass(frozen=True)
class Row:
    """One line of the table, and what sluice owes in it."""

    name: str
    title: str
    unit: str
    higher_is_better: bool = True
    demo: bool = False
    floor: Optional[float] = None  # sluice is at least this much of stock
    above_upstream: bool = False  # sluice is above upstream
    reaches_upstream: bool = False  # sluice is at least upstream
    lossless: bool = True  # sluice loses 0 packets at the ring
    prompt: bool = False  # sluice's ping is a fraction of the others'
    latency_share: Optional[float] = None  # sluice's ping is at most this of stock's
    path_ms: float = 0.0  # the path's own part of each ping
    rings: List[int] = field(default_factory=list)  # stock with these, too
    parameters: List[str] = field(default_factory=list)  # of sluice's module

    @property
    def variants(self) -> Tuple[str, ...]:
        return VARIANTS + tuple(ring_variant(ring) for ring in self.rings)


@dataclass(frozen=True)
class Sample:
    """One run of one row under one variant. Counts are packets."""

    value: float  # in the unit of the row
    sent: int
    read: int
    qdisc_drops: int
    lost_at_ring: int  # tx_dropped of the devices involved
    held: int = 0  # still in a queue when the run ended
    segmented: bool = False  # sent counts segments, read counts GSO packets
    ping_p50_ms: Optional[float] = None
    ping_p95_ms: Optional[float] = None
    ping_p99_ms: Optional[float] = None
    pings_ms: List[float] = field(default_factory=list)  # ascending
    extra: Dict[str, Any] = field(default_factory=dict)

    @property
    def unaccounted(self) -> int:
        if self.segmented:  # nothing counts both alike
            return 0
        return self.sent - (
            self.read + self.qdisc_drops + self.lost_at_ring + self.held
        )

    def to_json(self) -> Dict[str, Any]:
        return {**asdict(self), "unaccounted": self.unaccounted}
