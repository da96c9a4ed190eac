# SPDX-License-Identifier: GPL-2.0-or-later
"""A sample from what every workload has: its devices' counters and its ping."""

from __future__ import annotations

from typing import Any

from lab.guest.devices import Counters
from lab.guest.latency import NOT_ASKED, Latency, percentile
from lab.row import Sample


def sample(
    value: float,
    after: Counters,
    extra: dict[str, Any],
    ping: Latency = NOT_ASKED,
    **known: Any,
) -> Sample:
    """known: fields of Sample that the counters do not tell, or not exactly."""
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
            "pings_sent": ping.sent,
            "pings_received": ping.received,
            **extra,
        },
    )
