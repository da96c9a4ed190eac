# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a dead or slow reader hold up the traffic to another, living peer?

One blocking UDP socket sends in turn to both. The living peer is in the same process,
which takes its packets at once: to wake a sleeping peer would cost the sender time.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from dataclasses import dataclass
from functools import partial

from lab.guest.devices import HERE, THERE, sink, wait_drained
from lab.guest.env import GuestEnv
from lab.row import Sample, sample, workload

LIVING = ("127.0.0.1", 9)
SECONDS = 4  # the value is packets in 4 s, whatever seconds other rows take
PAYLOAD = bytes(200)
STUCK = struct.pack("ll", 2, 0)  # s; a call that takes longer is stuck for ever


@dataclass
class Sent:
    other: int = 0  # packets to the reader
    living: int = 0  # that the living peer got
    silence: float = 0.0  # its longest, s
    hung: bool = False


def _receive(living: socket.socket, most: int) -> int:
    """How many packets waited, of so many at most."""
    received = 0
    with contextlib.suppress(BlockingIOError):
        while received < most:
            living.recv(len(PAYLOAD))
            received += 1
    return received


def send_in_turn(address: str, packets: int = 0, pause: float = 0.0) -> Sent:
    """Packets to this address and to the living peer, in turn, from one socket that
    blocks, until it is stuck; packets: so many to each, with this pause, of which those
    that are late follow at once; 0: as many as go in SECONDS."""
    sent = Sent()
    inet = (socket.AF_INET, socket.SOCK_DGRAM)
    with socket.socket(*inet) as living, socket.socket(*inet) as out:
        living.bind(LIVING)
        living.setblocking(False)
        # Unlike settimeout() this leaves the socket blocking.
        out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, STUCK)
        began = last = now = time.monotonic()
        while sent.other < packets if packets else now < began + SECONDS:
            if pause:
                time.sleep(max(0.0, began + sent.other * pause - now))
            try:
                out.sendto(PAYLOAD, (address, LIVING[1]))
                sent.other += 1
                out.sendto(PAYLOAD, LIVING)
            except BlockingIOError:
                sent.hung = True
            sent.living += _receive(living, 1)
            now = time.monotonic()
            sent.silence, last = max(sent.silence, now - last), now
            if sent.hung:
                break
        sent.living += _receive(living, sent.other)
    return sent


def run(
    variant: str,
    seconds: float,
    env: GuestEnv,
    link_us: int = 0,
    packets: int = 0,
    pause: float = 0.0,
) -> Sample:
    """link_us: what each packet takes a slow reader; 0: it is dead."""
    with sink(
        env.helper("reader"),
        variant,
        paused=not link_us,
        options=("--link-us", str(link_us)) if link_us else (),
    ) as reader:
        sent = send_in_turn(THERE.address, packets, pause)
        # The reader reads at full pace, so that every packet can be counted.
        reader.resume()
        after = wait_drained([HERE])
        reader.end()
    extra = {"silence_ms": round(1000 * sent.silence, 1)}
    return sample(sent.living, after, extra=extra, sent=sent.other, read=reader.read)


# Nobody reads, or too slowly: tail drop is intended.
DEMANDS = {"above_upstream": True, "lossless": False}
WORKLOADS = [
    workload(
        name,
        f"{reader}, to the living peer in 4 s",
        "packets",
        partial(run, link_us=link_us),
        floor=floor,
        **DEMANDS,
    )
    for name, reader, link_us, floor in (
        ("dead_reader", "dead reader", 0, 0.9),
        ("slow_reader_5", "reader of 5 packets/s", 200_000, 0.8),
        ("slow_reader_50", "reader of 50 packets/s", 20_000, 0.8),
        ("slow_reader_100", "reader of 100 packets/s", 10_000, 0.5),
    )
]
