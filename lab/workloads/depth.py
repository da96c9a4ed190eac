# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a shallower ring give in latency, and what does it cost?

Two ways to make it shallow: a hand-tuned txqueuelen, and sluice's target_us, the
time its reader needs for what it holds. The rows are those of tcp.py and
udp_flood.py, with sluice's defaults.
"""

from __future__ import annotations

from lab.workloads.env import GuestEnv
from lab.workloads.row import Row, Sample
from lab.workloads.tcp import PACES, transfer
from lab.workloads.udp_flood import PAYLOAD_BYTES, flood

RINGS = [10, 100]
TARGETS = [500, 1000, 2000, 5000, 20000]
PACE = {"depth_fast": "fast", "depth_link": "link", "depth_udp": "slow"}
TITLES = {
    "depth_fast": "TCP, 8 streams, fast reader",
    "depth_link": "TCP, 8 streams, link",
    "depth_udp": "UDP flood, slow reader",
}
STREAMS = 8

ROWS = [
    Row(name=name, title=title, unit="Mbit/s", rings=RINGS, targets=TARGETS)
    for name, title in TITLES.items()
]


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    pace = PACES[PACE[row.name]]
    if row.name == "depth_udp":
        return transfer(variant, env, pace, 1, seconds, *flood(PAYLOAD_BYTES))
    return transfer(variant, env, pace, STREAMS, seconds)
