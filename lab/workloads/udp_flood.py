# SPDX-License-Identifier: GPL-2.0-or-later
"""A UDP flood through the slow forwarder: how much of it arrives?"""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import Any, Dict, Iterator

from lab.workloads import latency
from lab.workloads.devices import FAR, NEAR, forwarder, read_counters
from lab.workloads.devices import run_tool, wait_drained
from lab.workloads.env import GuestEnv
from lab.workloads.row import Row, Sample, WorkloadError

PORT = "9000"
BURN_US = 20
PAYLOAD_BITS = 1400 * 8

ROWS = [
    Row(
        name="udp_flood",
        title="UDP flood, slow reader, received",
        unit="Mbit/s",
        demo=True,
        floor=1.3,
        reaches_upstream=True,
    )
]


def parse_line(text: str, *names: str) -> Dict[str, Any]:
    """A JSON line of the udp_flood helper that has these names."""
    try:
        line = json.loads(text)
    except ValueError:
        line = {}
    if any(name not in line for name in names):
        raise WorkloadError(f"udp_flood: said {text.strip()!r} without {names}")
    return line


class Receiver:
    def __init__(self, helper: str) -> None:
        self._process = subprocess.Popen(
            FAR.command(helper, "receive", FAR.address, PORT),
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )
        assert self._process.stdout is not None
        parse_line(self._process.stdout.readline(), "state")

    def end(self) -> Dict[str, Any]:
        self._process.terminate()
        text, _ = self._process.communicate(timeout=10)
        return parse_line(text, "received", "seconds")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def receiver(helper: str) -> Iterator[Receiver]:
    process = Receiver(helper)
    try:
        yield process
    finally:
        process.kill()


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    helper = env.helper("udp_flood")
    with forwarder(env.helper("reader"), variant, BURN_US) as reader:
        with receiver(helper) as arrival, latency.ping(NEAR, FAR) as ping:
            flood = parse_line(
                run_tool(
                    NEAR.command(helper, "send", FAR.address, PORT, str(seconds))
                ),
                "sent",
                "seconds",
            )
            pinged = ping.end()
            after = wait_drained([NEAR, FAR])
            arrived = arrival.end()
        answers = read_counters(FAR)
        counts = reader.end()
    if not arrived["received"]:
        raise WorkloadError(f"{row.name}, {variant}: nothing arrived")
    return Sample(
        value=arrived["received"] * PAYLOAD_BITS / arrived["seconds"] / 1e6,
        sent=flood["sent"] + pinged.sent + answers.offered,
        read=sum(count["read"] for count in counts),
        qdisc_drops=after.qdisc_drops,
        lost_at_ring=after.lost_at_ring,
        held=after.held,
        extra={
            "flood_sent": flood["sent"],
            "flood_errors": flood["errors"],
            "flood_received": arrived["received"],
            "requeues": after.requeues,
            "pings_sent": pinged.sent,
            "pings_received": pinged.received,
            "write_errors": sum(count["write_errors"] for count in counts),
        },
        **pinged.fields(),
    )
