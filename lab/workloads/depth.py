# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a shallower ring give in latency, and what does it cost?

Two ways to make it shallow: a hand-tuned txqueuelen, and sluice's target_us, the
time its reader needs for what it holds. The rows are like those of the bench, with
sluice's defaults.
"""

from __future__ import annotations

from lab.guest.env import GuestEnv
from lab.row import Row, Sample
from lab.workloads import pktgen
from lab.workloads.tcp import PACES, Case, transfer
from lab.workloads.udp_flood import case_of

RINGS = [10, 100]
TARGETS = [250, 500, 1000, 2000, 5000, 20000]
STREAMS = 8
VHOST = pktgen.Case(1, "pktgen through the qdisc, vhost-net", False, vhost=True)


def depth_row(name: str, title: str, unit: str = "Mbit/s") -> Row:
    return Row(name=name, title=title, unit=unit, rings=RINGS, targets=TARGETS)


ROWS = [
    depth_row("depth_fast", "TCP, 8 streams, fast reader"),
    depth_row("depth_link", "TCP, 8 streams, link"),
    depth_row("depth_udp", "UDP flood, slow reader"),
    depth_row("depth_vhost", VHOST.title, "packets/s"),
]


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    if row.name == "depth_vhost":
        return pktgen.receive(VHOST, variant, seconds, env)
    if row.name == "depth_udp":
        return transfer(case_of(PACES["slow"]), variant, seconds, env)
    pace = PACES[row.name.rpartition("_")[2]]
    return transfer(Case(STREAMS, pace), variant, seconds, env)
