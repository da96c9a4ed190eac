# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a dead or slow reader hold up the traffic to another, living peer?

One blocking UDP socket sends in turn to both.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from functools import partial
from typing import Any

from lab.guest import tasks
from lab.guest.devices import HERE, THERE, sink, wait_drained
from lab.guest.env import GuestEnv
from lab.guest.program import SO_RCVBUFFORCE, read_sent
from lab.processes import running
from lab.row import Row, Sample, Workload, sample

LIVING = ("127.0.0.1", 9)
SECONDS = 4  # the value is packets in 4 s, whatever seconds other rows take
PAYLOAD_BYTES = 200
PAUSE_SECONDS = 0.005
BUFFER_BYTES = 16 << 20  # of the living peer: for many pauses


def _receive_all(living: socket.socket) -> int:
    """What waits in the socket, which does not block."""
    received = 0
    with contextlib.suppress(BlockingIOError):
        while living.recv(2048):
            received += 1
    return received


def send_in_turn(env: GuestEnv, address: str) -> dict[str, Any]:
    """Packets to this address and to the living peer, in turn, from one socket that
    blocks: {"other", "living", "received", "hung"}.

    The living peer polls, and never sleeps until a packet comes: to wake a sleeping
    peer costs the sender time. Whether the peer sleeps depends on which of both is
    slightly faster, and would not change during a whole run. It and the sender have a
    CPU each: if they shared one, that would change the rate more than what is measured.
    """
    cpus, received = os.sched_getaffinity(0), 0
    inet = (socket.AF_INET, socket.SOCK_DGRAM)
    with socket.socket(*inet) as living, socket.socket(*inet) as out:
        living.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        living.bind(LIVING)
        living.setblocking(False)
        argv = [env.helper("sender"), str(PAYLOAD_BYTES), "0", str(SECONDS)]
        try:
            tasks.pin([0], max(cpus))
            with running([*argv, address, LIVING[0]], stdin=out) as sender:
                tasks.pin([0], min(cpus))
                while sender.poll() is None:
                    time.sleep(PAUSE_SECONDS)
                    received += _receive_all(living)
                received += _receive_all(living)  # what came since
                counts = read_sent(sender)
        finally:
            os.sched_setaffinity(0, cpus)
    other, reached = counts["sent"]
    return {**counts, "other": other, "living": reached, "received": received}


def run(link_us: int, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """link_us: what each packet takes a slow reader; 0: it is dead."""
    with sink(
        env.helper("reader"),
        variant,
        paused=not link_us,
        options=("--link-us", str(link_us)) if link_us else (),
    ) as reader:
        counts = send_in_turn(env, THERE.address)
        # The reader reads at full pace, so that every packet can be counted.
        reader.resume()
        after = wait_drained([HERE])
        reader.end()
    return sample(counts["living"], after, sent=counts["other"], read=reader.read)


WORKLOADS = [
    Workload(
        Row(
            name=name,
            title=f"{reader}, to the living peer in 4 s",
            unit="packets",
            floor=floor,
            above_upstream=True,
            lossless=False,  # nobody reads, or too slowly: tail drop is intended
        ),
        partial(run, link_us),
    )
    for name, reader, link_us, floor in (
        ("dead_reader", "dead reader", 0, 0.9),
        ("slow_reader_5", "reader of 5 packets/s", 200_000, 0.8),
        ("slow_reader_50", "reader of 50 packets/s", 20_000, 0.8),
        ("slow_reader_100", "reader of 100 packets/s", 10_000, 0.5),
    )
]
