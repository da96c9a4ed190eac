# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers that are away for a time, as processes and inside the kernel.

A reader on a tick reads 500 packets at most each time, or until the ring is empty; one
that pauses reads as fast as it can for 700 ms of each second.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lab.guest.env import GuestEnv
from lab.row import Row, Sample, Workload
from lab.workloads.in_kernel import IN_KERNEL
from lab.workloads.tcp import FLOOD, Case, Pace, tcp_workload, transfer

TICKS_MS = (1, 5, 10, 20, 50)
LONG = "pause_300ms"  # longer than a stop may last: senders pass, the ring overflows
RHYTHMS = {
    **{f"tick_{ms}ms": ("--tick-us", str(1000 * ms)) for ms in TICKS_MS},
    LONG: ("--pause-us", "300000"),
}
OF_TCP = ("tick_10ms", "tick_50ms", LONG)
PACES = {
    f"{prefix}{{}}_{name}": (name, Pace(f"{name.replace('_', ' ')}{where}", options))
    for prefix, where, more in (("", "", ()), ("kernel_", ", in kernel", IN_KERNEL))
    for name, rhythm in RHYTHMS.items()
    for options in ((*more, *rhythm),)
}


def flood(case: Case, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """The packets that the reader took, per second. What arrives behind it tells less:
    a burst of 500 packets does not fit into the buffer of the socket that gets them."""
    taken = transfer(case, variant, seconds, env)
    return replace(taken, value=taken.read / max(1, round(seconds)))


def _flood(name: str, pace: Pace) -> Workload:
    title, lossless = f"UDP flood, {pace.title}", not name.endswith(LONG)
    row = Row(name, title, "packets/s", usual=True, floor=0.97, lossless=lossless)
    return Workload(row, partial(flood, replace(FLOOD, pace=pace)))


WORKLOADS = [
    *(_flood(name.format("udp"), pace) for name, (_, pace) in PACES.items()),
    *(
        tcp_workload(
            name.format("tcp_8"), 8, pace, usual=True, lossless=not name.endswith(LONG)
        )
        for name, (rhythm, pace) in PACES.items()
        if rhythm in OF_TCP
    ),
]
