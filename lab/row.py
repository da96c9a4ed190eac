# SPDX-License-Identifier: GPL-2.0-or-later
"""What a workload promises (Row) and what one run of it gives (Sample).

Every sample can be checked for conservation: what was sent is what was read,
dropped by the qdisc, dropped at the ring, or still held. `unaccounted` is the
rest and must be 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from lab.guest.devices import Counters
from lab.guest.env import GuestEnv
from lab.guest.latency import NOT_ASKED, Latency, percentile
from lab.variants import SERIES, SLOTS, VARIANTS

WHOLE_RING = ["target_us=0"]  # parameters of sluice


@dataclass(frozen=True)
class Row:
    """One line of the table, and what is required of sluice in it."""

    name: str
    title: str
    unit: str  # of its rate; empty if that says nothing
    floor: float | None = None  # sluice is at least this much of stock
    # The reader's own rate. A host that does not reach it under stock is too slow to
    # compare rates.
    pace: float | None = None
    above_upstream: bool = False  # sluice is above upstream
    reaches_upstream: bool = False  # sluice is at least upstream
    lossless: bool = True  # sluice loses 0 packets at the ring
    prompt: bool = False  # sluice's ping is a fraction of the others'
    latency_share: float | None = None  # sluice's ping is at most this of stock's
    path_ms: float = 0.0  # the path's own part of each ping
    rings: list[int] = field(default_factory=list)  # stock with these, too
    # The floor may be that of stock with this one: so long that it loses little.
    lossless_ring: int | None = None
    # sluice with these, us, too; then latency_share is theirs
    targets: list[int] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)  # of sluice's module
    series: bool = False  # with SERIES, too
    slots: bool = False  # with SLOTS, too

    def with_patched(self, series: bool, slots: bool) -> Row:
        """The patched drivers have no parameters, but are built without a target, too: a
        row that needs another one is not played with them."""
        known = self.parameters in ([], WHOLE_RING)
        return replace(self, series=series and known, slots=slots and known)

    @property
    def others(self) -> tuple[str, ...]:
        """Variants of the variants."""
        longest = [] if self.lossless_ring is None else [self.lossless_ring]
        rings = tuple(f"stock-{ring}" for ring in self.rings + longest)
        targets = tuple(f"sluice@{target}" for target in self.targets)
        series = f"{SERIES}@0" if self.parameters else SERIES
        return rings + targets + (SLOTS,) * self.slots + (series,) * self.series

    @property
    def variants(self) -> tuple[str, ...]:
        return VARIANTS + self.others


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
    ping_p50_ms: float | None = None
    ping_p99_ms: float | None = None
    pings_ms: list[float] = field(default_factory=list)  # ascending
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def unaccounted(self) -> int:
        if self.segmented:  # sent and read count different units
            return 0
        known = self.read + self.qdisc_drops + self.lost_at_ring + self.held
        return self.sent - known

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "unaccounted": self.unaccounted}


def sample(
    value: float,
    after: Counters,
    ping: Latency = NOT_ASKED,
    extra: dict[str, Any] | None = None,
    **known: Any,
) -> Sample:
    """From its devices' counters and its ping; known: fields of Sample that these do not
    tell, or not exactly."""
    return Sample(
        value=value,
        **{"sent": after.offered, "read": after.read, **known},
        qdisc_drops=after.qdisc_drops,
        lost_at_ring=after.lost_at_ring,
        held=after.held,
        ping_p50_ms=percentile(ping.times_ms, 50),
        ping_p99_ms=percentile(ping.times_ms, 99),
        pings_ms=[round(time, 1) for time in sorted(ping.times_ms)],
        extra={
            "requeues": after.requeues,
            # of which the report makes the share that was answered
            "pings_sent": ping.settled,
            "pings_received": ping.received,
            **(extra or {}),
        },
    )


# Takes one sample under a variant, measuring for so many seconds.
Measure = Callable[[str, float, GuestEnv], Sample]


class Workload(NamedTuple):
    row: Row
    measure: Measure


def workload(
    name: str, title: str, unit: str, measure: Measure, **demands: Any
) -> Workload:
    """demands: further fields of its Row."""
    return Workload(Row(name, title, unit, **demands), measure)
