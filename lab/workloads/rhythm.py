# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers that are away for a time, as processes and inside the kernel.

A reader on a tick reads 500 packets at most each time, or until the ring is empty; one
that pauses reads as fast as it can for 700 ms of each second.
"""

from __future__ import annotations

from dataclasses import replace

from lab.workloads.in_kernel import IN_KERNEL
from lab.workloads.tcp import FLOOD, Pace, tcp_workload, workload

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
WORKLOADS = [
    *(
        workload(
            name.format("udp"),
            f"UDP flood, {pace.title}",
            replace(FLOOD, pace=pace),
            usual=True,
            lossless=not name.endswith(LONG),
        )
        for name, (_, pace) in PACES.items()
    ),
    *(
        tcp_workload(
            name.format("tcp_8"), 8, pace, usual=True, lossless=not name.endswith(LONG)
        )
        for name, (rhythm, pace) in PACES.items()
        if rhythm in OF_TCP
    ),
]
