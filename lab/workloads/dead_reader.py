# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a dead or slow reader hold up the traffic to another, living peer?

One blocking UDP socket sends in turn to both.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Dict

from lab.guest.devices import HERE, THERE, read_counters, run_tool
from lab.guest.devices import sink, wait_drained
from lab.guest.env import GuestEnv
from lab.guest.sample import sample
from lab.row import Row, Sample, Workload, WorkloadError

LIVING = "127.0.0.1"
PORT = "9001"
SECONDS = 4.0  # the value is packets in 4 s, whatever seconds other rows take


def parse_dead_reader(text: str) -> Dict[str, Any]:
    try:
        counts = json.loads(text)
        return {name: counts[name] for name in ("living", "dead", "received", "hung")}
    except (ValueError, KeyError):
        raise WorkloadError(f"dead_reader: said {text.strip()!r}") from None


def run(link_us: int, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """link_us: what each packet takes a slow reader; 0: it is dead."""
    with sink(
        *(env.helper("reader"), variant),
        paused=not link_us,
        options=("--link-us", str(link_us)) if link_us else (),
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
    extra = {
        "hung": counts["hung"],
        "living_received": counts["received"],
        "held_by_qdisc_unread": unread.held,
    }
    return sample(counts["living"], after, extra, sent=counts["dead"], read=read)


def _workload(name: str, reader: str, link_us: int, **demands: Any) -> Workload:
    row = Row(
        name=name,
        title=f"{reader}, to the living peer in 4 s",
        unit="packets",
        above_upstream=True,
        lossless=False,  # nobody reads, or too slowly: tail drop is intended
        **demands,
    )
    return Workload(row, partial(run, link_us))


WORKLOADS = [
    _workload("dead_reader", "dead reader", 0, demo=True, floor=0.9),
    *(
        _workload(
            *(f"slow_reader_{pace}", f"reader of {pace} packets/s", 1_000_000 // pace),
            floor=floor,
        )
        for pace, floor in ((5, 0.8), (50, 0.8), (100, 0.5))
    ),
]
