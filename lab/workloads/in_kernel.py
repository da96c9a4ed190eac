# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers inside the kernel: no system call for a packet, as with vhost-net.

The lab's own module reads (kernel_reader/): as fast as it can, with so much work
for each packet, or at a link's pace.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.row import Workload
from lab.workloads import pktgen
from lab.workloads.tcp import (
    ABOVE,
    AWAY,
    BLOCK,
    FLOOD,
    SMALL_BLOCK,
    Pace,
    away_workloads,
    tcp_workloads,
    workload,
)

DIRECT = (1, 2, 4)  # senders of pktgen
STREAMS = (1, 2, 4, 8, 16)  # of TCP
IN_KERNEL = ("--in-kernel",)
SLOW = (*IN_KERNEL, "--burn-us", "20")
LOSSLESS: dict[str, Any] = {"lossless_ring": 8000}  # of stock
PROMPT = {"prompt": True}
PACES = {
    "fast": Pace("in kernel", IN_KERNEL, STREAMS, LOSSLESS),
    "5us": Pace("in kernel, 5 us", (*IN_KERNEL, "--burn-us", "5"), (1, 8)),
    "slow": Pace("in kernel, 20 us", SLOW, STREAMS, PROMPT, block=BLOCK),
    "link": Pace(
        "in kernel, link",
        (*IN_KERNEL, "--link-us", "200"),
        STREAMS,
        PROMPT,
        block=SMALL_BLOCK,
    ),
}
AWAY_IN_KERNEL = {
    name: replace(
        pace, title=f"{pace.title}, in kernel", options=(*IN_KERNEL, *pace.options)
    )
    for name, pace in AWAY.items()
}
# CoDel drops nothing there: they tell what its drops cost.
PFIFO = {
    f"{name}_pfifo": replace(
        PACES[name],
        title=f"{PACES[name].title}, pfifo",
        streams=streams,
        qdisc="pfifo",
        demands=demands,
    )
    for name, streams, demands in (
        ("fast", (1, 8, 16), LOSSLESS),
        ("5us", (8,), {}),
        ("slow", (8,), {}),
        ("link", (16,), {}),
    )
}


def _pktgen(name: str, senders: int, title: str, **settings: Any) -> Workload:
    """A direct sender is as fast as the reader, or faster."""
    case = pktgen.Case(senders, options=IN_KERNEL, **settings)
    return pktgen.workload(
        f"kernel_pktgen_{name}",
        f"pktgen, {title}, in kernel",
        case,
        **{"floor": 0.97, **(LOSSLESS if name in ("1", "2") else {})},
    )


WORKLOADS = [
    *(_pktgen(str(n), n, f"{n} direct") for n in DIRECT),
    _pktgen("qdisc", 1, "qdisc", direct=False),
    _pktgen("noqueue", 1, "noqueue", qdisc="noqueue"),
    *tcp_workloads(
        "kernel_",
        {**PACES, **PFIFO},
        {"kernel_tcp_8_fast": ABOVE, "kernel_tcp_16_fast": ABOVE},
    ),
    *away_workloads("kernel_", AWAY_IN_KERNEL),
    workload(
        "kernel_udp_slow",
        "UDP flood, in kernel, 20 us",
        replace(FLOOD, pace=PACES["slow"]),
        reaches_upstream=True,
    ),
]
