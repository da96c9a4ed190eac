# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a shallower ring give in latency, and what does it cost?

Two ways to make it shallow: a hand-tuned txqueuelen, and sluice's target_us, the
time its reader needs for what it holds. The rows are like those of the bench, with
sluice's defaults.
"""

from __future__ import annotations

from typing import Any

from lab.row import Workload
from lab.workloads import pktgen, tcp
from lab.workloads.tcp import FLOOD, IN_KERNEL, PACES, Case, Pace

TRIED: dict[str, Any] = {
    "rings": [10, 100],
    "targets": [250, 500, 1000, 2000, 5000, 20000],
    "floor": None,
}
STREAMS = 8
VHOST = pktgen.Case(direct=False, vhost=True)


def _tcp(name: str, pace: Pace) -> Workload:
    title = f"TCP, {STREAMS} streams, {pace.title}"
    return tcp.workload(name, title, Case(STREAMS, pace), **TRIED)


IN_PROCESSES = [
    _tcp("depth_fast", PACES["fast"]),
    _tcp("depth_link", PACES["link"]),
    tcp.workload("depth_udp", "UDP flood, slow reader", FLOOD, **TRIED),
    pktgen.workload("depth_vhost", "pktgen through the qdisc, vhost-net", VHOST, **TRIED),
]
TO_KERNEL = [
    _tcp(f"kernel_depth_{speed}", IN_KERNEL[speed])
    for speed in ("fast", "5us", "slow", "link")
]
