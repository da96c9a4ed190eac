# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the queueing discipline of a tun device take effect?

Through the forwarder with a link behind it that each packet keeps busy for
200 us: without backpressure the ring in front of that link is the queue, and
whatever the discipline would do, it has nothing to do it with.
"""

from __future__ import annotations

from dataclasses import replace

from lab.guest.env import GuestEnv
from lab.row import Row, Sample
from lab.workloads.tcp import PACES, Case, transfer
from lab.workloads.udp_flood import case_of

LOW_DELAY = 0x10  # the type of service that prio's first band takes


TCP = Case(4, PACES["link"])
FLOOD = replace(case_of(PACES["link"]), qdisc="prio", tos=LOW_DELAY)
CASES = {
    "shaping_prio": ("UDP flood, ping in prio's first band", FLOOD),
    "shaping_cake": ("TCP, 4 streams, cake", replace(TCP, qdisc="cake")),
    "shaping_fq": ("TCP, 4 streams, fq", replace(TCP, qdisc="fq")),
    "shaping_ecn": ("TCP, 4 streams, ECN", replace(TCP, ecn=True)),
    "shaping_half": (
        "TCP, 4 streams, cake 30 Mbit/s",
        replace(TCP, qdisc="cake bandwidth 30mbit"),
    ),
}

ROWS = [
    Row(
        name=name,
        title=title,
        unit="Mbit/s",
        floor=0.97,
        # At half the link's rate nobody has a queue but cake.
        prompt=name != "shaping_half",
    )
    for name, (title, _) in CASES.items()
]


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    return transfer(CASES[row.name][1], variant, seconds, env)
