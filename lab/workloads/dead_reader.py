# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a reader that never reads freeze the traffic to a living peer?"""

from __future__ import annotations

import json
from typing import Any, Dict

from lab.guest.devices import HERE, THERE, read_counters, run_tool
from lab.guest.devices import sink, wait_drained
from lab.guest.env import GuestEnv
from lab.row import Row, Sample, WorkloadError

LIVING = "127.0.0.1"
PORT = "9001"
SECONDS = 4.0  # the figure is packets in 4 s, whatever the others take

ROWS = [
    Row(
        name="dead_reader",
        title="dead reader, to the living peer in 4 s",
        unit="packets",
        demo=True,
        floor=0.9,
        above_upstream=True,
        lossless=False,  # tail drop is the point: nobody reads
    )
]


def parse_dead_reader(text: str) -> Dict[str, Any]:
    try:
        counts = json.loads(text)
        return {name: counts[name] for name in ("living", "dead", "received", "hung")}
    except (ValueError, KeyError):
        raise WorkloadError(f"dead_reader: said {text.strip()!r}") from None


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    with sink(env.helper("reader"), variant, paused=True) as reader:
        counts = parse_dead_reader(
            run_tool(
                [
                    *(env.helper("dead_reader"), THERE.address, LIVING),
                    *(PORT, str(SECONDS)),
                ]
            )
        )
        unread = read_counters(HERE)
        # The reader comes back to life so that every packet can be counted.
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
