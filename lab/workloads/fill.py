# SPDX-License-Identifier: GPL-2.0-or-later
"""The fill of the ring over time, with the moments of stops and wakes.

The module shows the fill of any device, served or not: under stock and
upstream it is loaded and off.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

from lab.guest.devices import HERE, THERE, attach, reader, run_tool
from lab.guest.devices import silence_first_netns, wait_drained
from lab.guest.env import GuestEnv
from lab.row import Row, Sample, Skipped, WorkloadError
from lab.workloads import pktgen
from lab.workloads.tcp import PACES

TRACING = Path("/sys/kernel/tracing")
EVENTS = ("queue_stop", "queue_wake")
TRACE_SECONDS = 1.0
SAMPLE_SECONDS = 0.002

PACE = {"fill": PACES["slow"], "fill_link": PACES["link"]}

ROWS = [
    Row(
        name="fill",
        title="mean fill, pktgen through the qdisc",
        unit="packets in a ring of 1000",
        higher_is_better=False,
    ),
    Row(
        name="fill_link",
        title="mean fill, the same, link",
        unit="packets in a ring of 1000",
        higher_is_better=False,
    ),
]

Events = List[Tuple[float, str, int]]  # seconds, event, fill


@contextlib.contextmanager
def module_present(variant: str, env: GuestEnv) -> Iterator[None]:
    """Load the module, switched off, unless the variant has loaded it."""
    if variant == "sluice":
        yield
        return
    if env.module is None:
        raise Skipped("sluice.ko was not built")
    run_tool(["insmod", str(env.module), "default_on=0"])
    try:
        yield
    finally:
        run_tool(["rmmod", "sluice"])


def parse_trace(text: str) -> Events:
    """Lines of tracefs with trace_clock mono: "... 12.345678: queue_stop: ..."."""
    found = re.findall(r" (\d+\.\d+): (queue_\w+): .*?\bfill=(\d+)", text)
    return [(float(moment), event, int(fill)) for moment, event, fill in found]


def mount_tracefs() -> None:
    if not TRACING.is_dir():
        raise Skipped("this kernel has no ftrace")
    if not TRACING.joinpath("events").exists():
        run_tool(["mount", "-t", "tracefs", "tracefs", str(TRACING)])


@contextlib.contextmanager
def tracing() -> Iterator[Path]:
    """A trace buffer of our own with sluice's events on."""
    mount_tracefs()
    instance = TRACING / "instances" / "sluice_fill"
    instance.mkdir()
    try:
        (instance / "trace_clock").write_text("mono")
        for event in EVENTS:
            (instance / "events" / "sluice" / event / "enable").write_text("1")
        yield instance
        for event in EVENTS:
            (instance / "events" / "sluice" / event / "enable").write_text("0")
    finally:
        instance.rmdir()


def sample_fill(client: Any, seconds: float) -> List[Tuple[float, int]]:
    """(moment, packets in the ring) of HERE's first queue."""
    index = socket.if_nametoindex(HERE.name)
    end = time.monotonic() + seconds
    points = []
    while time.monotonic() < end:
        fill = client.queues(index)[0].fill
        points.append((time.monotonic(), fill))
        time.sleep(SAMPLE_SECONDS)
    return points


def format_trace(
    points: List[Tuple[float, int]], events: Events
) -> Dict[str, List[Any]]:
    """Milliseconds from the first point, as the report draws it."""
    start = points[0][0]

    def since(moment: float) -> float:
        return round(1000 * (moment - start), 2)

    seen = [e for e in events if start <= e[0] <= points[-1][0]]
    return {
        "fill": [[since(moment), fill] for moment, fill in points],
        "stops": [[since(m), fill] for m, kind, fill in seen if kind == EVENTS[0]],
        "wakes": [[since(m), fill] for m, kind, fill in seen if kind == EVENTS[1]],
    }


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    from sluice.netlink import Client  # the guest has what it needs

    silence_first_netns()
    with module_present(variant, env), tracing() as trace, Client() as client:
        with reader(
            env.helper("reader"), "sink", (HERE,), variant, options=PACE[row.name]
        ) as sink:
            attach(HERE, THERE)
            with pktgen.senders(1, "queue_xmit") as names:
                pktgen.start(names)
                points = sample_fill(client, TRACE_SECONDS)
                pktgen.write_control("pgctrl", "stop")
                results = pktgen.wait_ended(names)
            after = wait_drained([HERE])
            read = sink.end()[0]["read"]
        events = parse_trace((trace / "trace").read_text())
    if not points:
        raise WorkloadError(f"{row.name}, {variant}: no sample of the fill")
    attempts = sum(result.attempts for result in results)
    return Sample(
        value=sum(fill for _, fill in points) / len(points),
        sent=attempts - pktgen.count_refused(results, 0, after),
        read=read,
        **after.unread(),
        extra={"trace": format_trace(points, events)},
    )
