# SPDX-License-Identifier: GPL-2.0-or-later
"""A UDP flood through the slow forwarder: how much of it arrives?

iperf3, as in the published measurements: its sender and its receiver want as
much of the CPUs as the forwarder does.
"""

from __future__ import annotations

from typing import List, Sequence

from lab.guest.env import GuestEnv
from lab.row import Row, Sample
from lab.workloads.tcp import PACES, Case, transfer

PAYLOAD_BYTES = 1400

ROWS = [
    Row(
        name="udp_flood",
        title="UDP flood, slow reader, received",
        unit="Mbit/s",
        demo=True,
        floor=1.3,
        reaches_upstream=True,
    ),
    Row(
        name="udp_link",
        title="UDP flood, link",
        unit="Mbit/s",
        demo=True,
        floor=0.97,
        prompt=True,
    ),
]


def flood(payload_bytes: int) -> List[str]:
    """iperf3's arguments."""
    return ["--udp", "--bitrate", "0", "--length", str(payload_bytes)]


def case_of(pace: Sequence[str]) -> Case:
    """pace: of the reader."""
    return Case(1, pace, flood(PAYLOAD_BYTES))


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    pace = PACES["slow" if row.name == "udp_flood" else "link"]
    return transfer(case_of(pace), variant, seconds, env)
