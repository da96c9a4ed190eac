# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a shallower ring give in latency, and what does it cost?

Two ways to make it shallow: a hand-tuned txqueuelen, and sluice's target_us, the
time its reader needs for what it holds. The rows are like those of the bench, with
sluice's defaults.
"""

from __future__ import annotations

from functools import partial

from lab.row import Measure, Row, Workload
from lab.workloads import pktgen
from lab.workloads.tcp import FLOOD, IN_KERNEL, PACES, Case, Pace, transfer

RINGS = [10, 100]
TARGETS = [250, 500, 1000, 2000, 5000, 20000]
STREAMS = 8
VHOST = pktgen.Case(direct=False, vhost=True)


def _workload(name: str, title: str, measure: Measure, unit: str = "Mbit/s") -> Workload:
    return Workload(Row(name, title, unit, rings=RINGS, targets=TARGETS), measure)


def _tcp(name: str, pace: Pace) -> Workload:
    title = f"TCP, {STREAMS} streams, {pace.title}"
    return _workload(name, title, partial(transfer, Case(STREAMS, pace)))


IN_PROCESSES = [
    _tcp("depth_fast", PACES["fast"]),
    _tcp("depth_link", PACES["link"]),
    _workload("depth_udp", "UDP flood, slow reader", partial(transfer, FLOOD)),
    _workload(
        "depth_vhost",
        "pktgen through the qdisc, vhost-net",
        partial(pktgen.receive, VHOST),
        "packets/s",
    ),
]
TO_KERNEL = [
    _tcp(f"kernel_depth_{speed}", IN_KERNEL[speed])
    for speed in ("fast", "5us", "slow", "link")
]
