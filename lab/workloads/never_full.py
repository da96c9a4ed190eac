# SPDX-License-Identifier: GPL-2.0-or-later
"""The cost of the hook while the ring never fills.

pktgen sends bursts of 40 % of the ring to a reader that is paused, so that only
the transmit path is timed; the reader then empties the ring. The ring is ten
times the default, because each start of pktgen takes more than 200 ms and a
burst of 400 packets is over in one. The value is the fastest burst's: what the
path costs when the host took no CPU away. The median burst is kept beside it.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import List

from lab.workloads import pktgen
from lab.workloads.devices import DRAIN_SECONDS, HERE, Reader, sink, wait_drained
from lab.workloads.env import GuestEnv
from lab.workloads.row import Row, Sample, WorkloadError

RING = 10000
BURST = 4000
MIN_BURSTS = 7

ROWS = [
    Row(
        name="never_full",
        title="pktgen, ring never full",
        unit="packets/s",
        floor=0.98,
    )
]


def wait_sent(name: str, packets: int) -> None:
    deadline = time.monotonic() + pktgen.START_SECONDS
    while time.monotonic() < deadline:
        text = (pktgen.PROC / name).read_text()
        if pktgen.parse_sent_so_far(text) == packets:
            return
        time.sleep(0.05)  # longer than a burst: who asks takes the CPU
    raise WorkloadError(
        f"never_full: {packets} packets do not go into a ring of {RING}; "
        "was the queue stopped?"
    )


def wait_read(packets: int) -> None:
    """Until so many packets in all have been read."""
    count = Path(f"/sys/class/net/{HERE.name}/statistics/tx_packets")
    deadline = time.monotonic() + DRAIN_SECONDS
    while int(count.read_text()) < packets:
        if time.monotonic() > deadline:
            raise WorkloadError(f"{HERE.name}: the reader does not empty the ring")
        time.sleep(0.002)


def send_burst(reader: Reader, name: str, already: int) -> pktgen.Sent:
    """pktgen ends when its last packet has been read: its wait is not timed."""
    reader.pause()
    pktgen.start([name])
    wait_sent(name, BURST)
    reader.resume()
    sent = pktgen.wait_ended([name])[0]
    wait_read(already + sent.attempts)
    return sent


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    bursts: List[pktgen.Sent] = []
    attempts = 0
    end = time.monotonic() + seconds
    with sink(env.helper("reader"), variant, ring=RING) as reader:
        with pktgen.senders(1, packets=BURST) as (name,):
            while time.monotonic() < end or len(bursts) < MIN_BURSTS:
                bursts.append(send_burst(reader, name, attempts))
                attempts += bursts[-1].attempts
        after = wait_drained([HERE], direct=attempts)
        read = reader.end()[0]["read"]
    rates = [burst.attempts / burst.busy_seconds for burst in bursts]
    return Sample(
        value=max(rates),
        sent=attempts,
        read=read,
        qdisc_drops=after.qdisc_drops,
        lost_at_ring=after.lost_at_ring,
        held=after.held,
        extra={
            "bursts": len(bursts),
            "packets_in_a_burst": BURST,
            "median": statistics.median(rates),
        },
    )
