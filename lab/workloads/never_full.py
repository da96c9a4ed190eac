# SPDX-License-Identifier: GPL-2.0-or-later
"""The cost of the hook while the ring never fills.

pktgen sends bursts of 40 % of the ring to a reader that is paused, so that only
the transmit path is timed; the reader then empties the ring. The ring is ten
times the default, because each start of pktgen takes more than 100 ms and a
burst of 400 packets is over in one. The value is taken from the median burst.
"""

from __future__ import annotations

import statistics
import time
from typing import List

from lab.workloads import pktgen
from lab.workloads.devices import HERE, Reader, sink, wait_drained
from lab.workloads.env import GuestEnv
from lab.workloads.row import Row, Sample

RING = 10000
BURST = 4000
MIN_BURSTS = 5

ROWS = [
    Row(
        name="never_full",
        title="pktgen, ring never full, per sender CPU",
        unit="packets/s",
        floor=0.98,
    )
]


def send_burst(reader: Reader, names: List[str], already: int) -> pktgen.Sent:
    reader.pause()
    pktgen.start().join()
    sent = pktgen.read_results(names)[0]
    reader.resume()
    wait_drained([HERE], direct=already + sent.attempts)
    return sent


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    bursts: List[pktgen.Sent] = []
    attempts = 0
    end = time.monotonic() + seconds
    with sink(env.helper("reader"), variant, ring=RING) as reader:
        with pktgen.senders(1, packets=BURST) as names:
            while time.monotonic() < end or len(bursts) < MIN_BURSTS:
                bursts.append(send_burst(reader, names, attempts))
                attempts += bursts[-1].attempts
        after = wait_drained([HERE], direct=attempts)
        read = reader.end()[0]["read"]
    typical = statistics.median(burst.seconds / burst.attempts for burst in bursts)
    return Sample(
        value=1 / typical,
        sent=attempts,
        read=read,
        qdisc_drops=after.qdisc_drops,
        lost_at_ring=after.lost_at_ring,
        held=after.held,
        extra={
            "bursts": len(bursts),
            "packets_in_a_burst": BURST,
            "best": max(burst.attempts / burst.seconds for burst in bursts),
        },
    )
