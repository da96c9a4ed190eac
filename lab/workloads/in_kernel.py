# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers inside the kernel: no system call for a packet, as with vhost-net.

The lab's own module reads (kernel_reader/): as fast as it can, with so much work
for each packet, or at a link's pace.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import List

from lab.row import Row, Workload
from lab.workloads import pktgen
from lab.workloads.tcp import FLOOD, Case, tcp_workload, transfer

IN_KERNEL = ("--in-kernel",)
PACES = {
    "fast": IN_KERNEL,
    "5us": (*IN_KERNEL, "--burn-us", "5"),
    "slow": (*IN_KERNEL, "--burn-us", "20"),
    "link": (*IN_KERNEL, "--link-us", "200"),
}
READERS = {
    "fast": "in kernel",
    "5us": "in kernel, 5 us",
    "slow": "in kernel, 20 us",
    "link": "in kernel, link",
}
STREAMS = {
    "fast": (1, 2, 4, 8, 16),
    "5us": (1, 8),
    "slow": (1, 8, 16),
    "link": (1, 4, 8),
}
LOSSLESS_RING = 8000  # of stock

_DIRECT = {
    f"kernel_pktgen_{n}": pktgen.Case(n, f"pktgen, {n} direct, in kernel")
    for n in (1, 2, 4)
}
_PKTGEN = {
    **_DIRECT,
    "kernel_pktgen_qdisc": pktgen.Case(1, "pktgen, qdisc, in kernel", direct=False),
    "kernel_pktgen_noqueue": pktgen.Case(
        1, "pktgen, noqueue, in kernel", qdisc="noqueue"
    ),
}


def _pktgen_workload(name: str, case: pktgen.Case) -> Workload:
    """A direct sender is as fast as the reader, or faster."""
    ring = LOSSLESS_RING if name in ("kernel_pktgen_1", "kernel_pktgen_2") else None
    one = pktgen.workload(name, replace(case, options=IN_KERNEL))
    return one._replace(row=replace(one.row, floor=0.97, lossless_ring=ring))


def _tcp_workload(streams: int, speed: str, qdisc: str = "fq_codel") -> Workload:
    name, reader = f"kernel_tcp_{streams}_{speed}", READERS[speed]
    fast, own = speed == "fast", qdisc == "fq_codel"
    return tcp_workload(
        *(name if own else f"{name}_{qdisc}", reader if own else f"{reader}, {qdisc}"),
        Case(streams, PACES[speed], qdisc=qdisc),
        above_upstream=own and fast and streams >= 8,
        prompt=speed in ("link", "slow"),
        lossless_ring=LOSSLESS_RING if fast else None,
    )


WORKLOADS = [
    *(_pktgen_workload(name, case) for name, case in _PKTGEN.items()),
    *(_tcp_workload(n, speed) for speed, streams in STREAMS.items() for n in streams),
    *(_tcp_workload(n, "fast", "pfifo") for n in (1, 8, 16)),
    Workload(
        Row(
            name="kernel_udp_slow",
            title="UDP flood, in kernel, 20 us",
            unit="Mbit/s",
            floor=0.97,
            reaches_upstream=True,
        ),
        partial(transfer, replace(FLOOD, pace=PACES["slow"])),
    ),
]


# Rows of other files that a native machine measures by default.
OF_OTHERS = (
    *("pktgen_1", "pktgen_2", "pktgen_queue_xmit", "pktgen_1_noqueue", "vhost_1"),
    *("tcp_1_fast", "tcp_8_fast", "tcp_8_slow", "tcp_8_slow_pfifo", "tcp_8_slow_ecn"),
    *("tcp_8_link", "udp_flood", "udp_link"),
    *("dead_reader", "never_full_socket", "never_full_direct"),
)


def usual(rows: List[Row], cpus: int) -> List[Row]:
    """The rows of this file and OF_OTHERS, with no more senders than CPUs."""
    many = [name for name, case in _DIRECT.items() if case.senders > cpus]
    names = {*OF_OTHERS, *(one.row.name for one in WORKLOADS)}.difference(many)
    return [row for row in rows if row.name in names]
