# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a dead or slow reader hold up the traffic to another, living peer?

One blocking UDP socket sends in turn to both.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List

from lab.guest.devices import HERE, THERE, read_counters, run_tool
from lab.guest.devices import sink, wait_drained
from lab.guest.env import GuestEnv
from lab.row import Row, Sample, WorkloadError

LIVING = "127.0.0.1"
PORT = "9001"
SECONDS = 4.0  # the value is packets in 4 s, whatever seconds other rows take

ROWS = [
    Row(
        name="dead_reader",
        title="dead reader, to the living peer in 4 s",
        unit="packets",
        demo=True,
        floor=0.9,
        above_upstream=True,
        lossless=False,  # nobody reads: tail drop is intended
    ),
    *(
        Row(
            name=f"slow_reader_{pace}",
            title=f"reader of {pace} packets/s, to the living peer in 4 s",
            unit="packets",
            floor=floor,
            above_upstream=True,
            lossless=False,  # too slow a reader
        )
        for pace, floor in ((5, 0.8), (50, 0.8), (100, 0.5))
    ),
]


def parse_dead_reader(text: str) -> Dict[str, Any]:
    try:
        counts = json.loads(text)
        return {name: counts[name] for name in ("living", "dead", "received", "hung")}
    except (ValueError, KeyError):
        raise WorkloadError(f"dead_reader: said {text.strip()!r}") from None


def link_options(row: Row) -> List[str]:
    """Of a slow reader: the link behind it."""
    if row.name == "dead_reader":
        return []
    packets_per_second = int(row.name.rpartition("_")[2])
    return ["--link-us", str(1_000_000 // packets_per_second)]


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    with sink(
        *(env.helper("reader"), variant),
        paused=row.name == "dead_reader",
        options=link_options(row),
    ) as reader:
        counts = parse_dead_reader(
            run_tool(
                [
                    *(env.helper("dead_reader"), THERE.address, LIVING),
                    *(PORT, str(SECONDS)),
                ]
            )
        )
        unread = read_counters(HERE)
        # The reader reads at full pace, so that every packet can be counted.
        reader.resume()
        after = wait_drained([HERE])
        read = reader.end()[0]["read"]
    return Sample(
        value=counts["living"],
        sent=counts["dead"],
        read=read,
        **after.unread(),
        extra={
            "hung": counts["hung"],
            "living_received": counts["received"],
            "held_by_qdisc_unread": unread.held,
            "requeues": after.requeues,
        },
    )
