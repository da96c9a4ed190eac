# SPDX-License-Identifier: GPL-2.0-or-later
"""What the hook costs, in instructions: while the ring never fills, when it is full
because the reader is dead, and where senders and reader share the CPU.

Measured where the VM counts them: one instruction takes one nanosecond of its
time, on its only CPU. The same round of two boots differs by less than 1 in 1000, so
that a few instructions more or fewer are seen.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial

from lab.failure import WorkloadError
from lab.guest.crowd import crowd
from lab.guest.env import GuestEnv
from lab.row import WHOLE_RING, Row, Sample, Workload
from lab.workloads import dead_reader, tcp
from lab.workloads.never_full import BURST, time_bursts

BURSTS = 9  # one or two of them pay for work that loading the module leaves
CROWD = 1000
CALLBACK = "direct_call=0"  # ftrace calls the hook as it calls those of others
UNIT = "packets per million instructions"
# Fewer are not possible for a packet that passes the driver.
LEAST_INSTRUCTIONS = 1000


def run(path: str, others: int, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """others: so many taps beside it."""
    with crowd(others):
        taken, spent = time_bursts(path, variant, env, BURSTS)
    counted = [round(s * 1e9 / BURST) for s in spent]
    if min(counted) < LEAST_INSTRUCTIONS:
        raise WorkloadError(
            f"{min(counted)} instructions for a packet: this kernel's pktgen "
            "does not tell its busy time"
        )
    taken.extra["instructions"] = counted
    return replace(taken, value=1e6 / statistics.median(counted))


# A socket's packet has some 5000 instructions behind it, pktgen's own 2000: the
# hook's part is the larger, the shorter the path. Rows of other workloads, on one CPU
# that senders, reader and receiver share: the host's scheduler does not affect them.
WORKLOADS = [
    *(
        Workload(
            Row(
                name=f"cost_{name}",
                title=f"{title} ({', '.join(parameters)})",
                unit=UNIT,
                floor=floor,
                parameters=parameters,
            ),
            partial(run, path, others),
        )
        for name, path, title, floor, others, parameters in (
            ("socket", "socket", "UDP socket", 0.98, 0, WHOLE_RING),
            ("callback", "socket", "the same", None, 0, [*WHOLE_RING, CALLBACK]),
            ("qdisc", "qdisc", "pktgen through the qdisc", None, 0, WHOLE_RING),
            ("direct", "direct", "pktgen, direct", None, 0, WHOLE_RING),
            ("crowd_direct", "direct", f"beside {CROWD} taps", None, CROWD, WHOLE_RING),
        )
    ),
    *(
        one._replace(row=replace(one.row, name=f"cost_{one.row.name}"))
        for one in (*dead_reader.WORKLOADS, *tcp.TCP, *tcp.UDP)
        if one.row.name in ("dead_reader", "tcp_8_fast", "tcp_1_slow", "udp_flood")
    ),
]
