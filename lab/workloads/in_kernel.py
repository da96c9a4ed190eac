# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers inside the kernel: no system call for a packet, as with vhost-net.

The lab's own module reads (kernel_reader/): as fast as it can, with so much work
for each packet, or at a link's pace.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Dict, List, Tuple

from lab.guest.devices import run_tool
from lab.guest.env import GuestEnv
from lab.row import Row, Sample, Skipped
from lab.workloads import pktgen, tcp
from lab.workloads.tcp import Case, transfer
from lab.workloads.udp_flood import case_of

IN_KERNEL = ("--in-kernel",)
PACES: Dict[str, Tuple[str, ...]] = {
    "fast": (),
    "5us": ("--burn-us", "5"),
    "slow": ("--burn-us", "20"),
    "link": ("--link-us", "200"),
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


def _pktgen_cases() -> Dict[str, pktgen.Case]:
    cases = {
        f"kernel_pktgen_{n}": pktgen.Case(
            n, f"pktgen, {n} direct, in kernel", options=IN_KERNEL
        )
        for n in (1, 2, 4)
    }
    cases["kernel_pktgen_qdisc"] = pktgen.Case(
        1, "pktgen, qdisc, in kernel", direct=False, options=IN_KERNEL
    )
    cases["kernel_pktgen_noqueue"] = pktgen.Case(
        1, "pktgen, noqueue, in kernel", qdisc="noqueue", options=IN_KERNEL
    )
    return cases


CASES = _pktgen_cases()
TCP_CASES: Dict[str, Case] = {
    **tcp.cases_of(
        "kernel_tcp", {name: IN_KERNEL + pace for name, pace in PACES.items()}, STREAMS
    ),
    **{
        f"kernel_tcp_{streams}_fast_pfifo": Case(streams, IN_KERNEL, qdisc="pfifo")
        for streams in (1, 8, 16)
    },
}


def _pktgen_row(name: str, case: pktgen.Case) -> Row:
    """A direct sender is as fast as the reader, or faster."""
    fast = name in ("kernel_pktgen_1", "kernel_pktgen_2")
    ring = LOSSLESS_RING if fast else None
    return replace(pktgen.row_of(name, case), floor=0.97, lossless_ring=ring)


def _tcp_row(name: str, case: Case) -> Row:
    speed = name.split("_")[3]
    ring = LOSSLESS_RING if speed == "fast" else None
    if case.qdisc == "pfifo":
        reader = f"{READERS[speed]}, pfifo"
        return tcp.row_of(name, case.streams, reader, lossless_ring=ring)
    return tcp.row_of(
        *(name, case.streams, READERS[speed]),
        above_upstream=speed == "fast" and case.streams >= 8,
        prompt=speed in ("link", "slow"),
        lossless_ring=ring,
    )


ROWS: List[Row] = [
    *(_pktgen_row(name, case) for name, case in CASES.items()),
    *(_tcp_row(name, case) for name, case in TCP_CASES.items()),
    Row(
        name="kernel_udp_slow",
        title="UDP flood, in kernel, 20 us",
        unit="Mbit/s",
        floor=0.97,
        reaches_upstream=True,
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
    return [
        row
        for row in rows
        if row.name in OF_OTHERS
        or (row in ROWS and (row.name not in CASES or CASES[row.name].senders <= cpus))
    ]


def load_reader(env: GuestEnv) -> None:
    if os.path.exists("/sys/module/kernel_reader"):
        return
    module = env.helpers.parent / "kernel_reader.ko"
    if not module.exists():
        raise Skipped("the lab's kernel_reader.ko is only built for native machines")
    run_tool(["insmod", str(module)])


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    load_reader(env)
    if row.name in CASES:
        return pktgen.receive(CASES[row.name], variant, seconds, env)
    if row.name in TCP_CASES:
        return transfer(TCP_CASES[row.name], variant, seconds, env)
    return transfer(case_of(IN_KERNEL + PACES["slow"]), variant, seconds, env)
