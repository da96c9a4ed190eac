# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the queueing discipline of a tun device take effect?

Through the forwarder with a link behind it that each packet keeps busy for
200 us: without backpressure the ring in front of that link is the queue, and
whatever the discipline would do, it has nothing to do it with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

from lab.guest.env import GuestEnv
from lab.row import Row, Sample
from lab.workloads.tcp import PACES, transfer
from lab.workloads.udp_flood import PAYLOAD_BYTES, flood

LOW_DELAY = 0x10  # the type of service that prio's first band takes


@dataclass(frozen=True)
class Case:
    title: str
    qdisc: str
    streams: int = 4
    options: Tuple[str, ...] = ()
    tos: int = 0
    ecn: bool = False


CASES = {
    "shaping_prio": Case(
        *("UDP flood, ping in prio's first band", "prio", 1),
        options=tuple(flood(PAYLOAD_BYTES)),
        tos=LOW_DELAY,
    ),
    "shaping_cake": Case("TCP, 4 streams, cake", "cake"),
    "shaping_fq": Case("TCP, 4 streams, fq", "fq"),
    "shaping_ecn": Case("TCP, 4 streams, ECN", "fq_codel", ecn=True),
    "shaping_half": Case("TCP, 4 streams, cake 30 Mbit/s", "cake bandwidth 30mbit"),
}

ROWS = [
    Row(
        name=name,
        title=case.title,
        unit="Mbit/s",
        floor=0.97,
        # At half the link's rate nobody has a queue but cake.
        prompt=name != "shaping_half",
    )
    for name, case in CASES.items()
]


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    case = CASES[row.name]
    return transfer(
        variant,
        env,
        PACES["link"],
        case.streams,
        seconds,
        *case.options,
        qdisc=case.qdisc,
        tos=case.tos,
        ecn=case.ecn,
    )
