# SPDX-License-Identifier: GPL-2.0-or-later
"""What make demo shows: rows whose reader has a pace, or never reads.

The reader is a link of 1000 packets/s, which an emulator on a busy host keeps up with as
a CPU does. So the rates are the same under each variant, and what differs is what
packets wait for, and what is lost. The voice flow is a ping of a call's size and rate.
The kernel notes when pings, and packets to a living peer, arrive: how fast the lab's own
processes run does not matter.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import Any

from lab.failure import WorkloadError
from lab.guest import devices
from lab.guest.devices import HERE, THERE
from lab.guest.env import GuestEnv
from lab.guest.program import SO_RCVBUFFORCE
from lab.row import Row, Sample, Workload, sample
from lab.workloads import pktgen, tcp

LINK_US = 1000
LINK = ("--link-us", str(LINK_US), "--steady")
LINK_TITLE = f"a link of {1_000_000 // LINK_US} packets/s"
PACE = tcp.Pace(LINK_TITLE, LINK, tcp.SMALL_BLOCK)
PINGS = {"interval": 0.05}  # they take a part of the link
CALL = {"interval": 0.02, "size": 172}  # G.711 with RTP's header
FLOOD_MBIT = 50  # more than four times what the link takes
FLOOD = tcp.udp_options(tcp.UDP_PAYLOAD_BYTES, f"{FLOOD_MBIT}M")
SAME = 0.95  # a rate is the same from here on
LEAST_MBIT = 10.0  # of the link's 11.6: an emulator with less does not keep its pace
SHARE = 1 / 3  # sluice's ping is at most this much of stock's
BUFFER_BYTES = 16 << 20  # of the living peer: it is read at the end
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; not in Python's module
TIMESPEC = struct.Struct("ll")
PEER = ("127.0.0.1", 9)
PEER_PACKETS, PEER_SECONDS = 3000, 0.001  # between packets
STUCK = struct.pack("ll", 2, 0)  # a call that takes longer is stuck for ever


def open_peer() -> socket.socket:
    """Its packets are read at the end, with the times at which they came."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    opened.setblocking(False)
    opened.bind(PEER)
    return opened


def read_times(opened: socket.socket) -> list[int]:
    """When each packet that waits came, ns."""
    times = []
    with contextlib.suppress(BlockingIOError):
        while True:
            _, control, _, _ = opened.recvmsg(2048, socket.CMSG_SPACE(TIMESPEC.size))
            seconds, ns = TIMESPEC.unpack(control[0][2])
            times.append(seconds * 10**9 + ns)
    return times


def send_to_both() -> None:
    """To the reader and to the living peer in turn, from one socket that blocks, until it
    is stuck. Packets that are late follow at once."""
    started = time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        # Unlike settimeout() this leaves the socket blocking.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, STUCK)
        with contextlib.suppress(BlockingIOError):
            for number in range(PEER_PACKETS):
                wait = started + number * PEER_SECONDS - time.monotonic()
                time.sleep(max(0.0, wait))
                for address in (THERE.address, PEER[0]):
                    opened.sendto(bytes(200), (address, PEER[1]))


def beside_dead_reader(variant: str, seconds: float, env: GuestEnv) -> Sample:
    """Packets that reach the living peer; the reader of the device reads nothing."""
    with devices.sink(env.helper("reader"), variant, paused=True) as reader:
        with open_peer() as peer:
            send_to_both()
            ended = time.time_ns()
            came = read_times(peer)
        if not came:
            raise WorkloadError("the living peer got nothing")
        # The reader reads at full pace, so that every packet can be counted.
        reader.resume()
        after = devices.wait_drained([HERE])
        reader.end()
    silence = max(b - a for a, b in zip(came, [*came[1:], ended]))  # the longest, ns
    extra = {"silence_ms": round(silence / 1e6, 1)}
    return sample(len(came), after, extra=extra, read=reader.read)


TCP, UDP, VOICE, DIRECT, DEAD = (
    f"demo_{name}" for name in ("tcp", "udp", "voice", "direct", "dead_reader")
)
OF_RATES: dict[str, Any] = {
    "floor": SAME,
    "pace": LEAST_MBIT,
    "latency_share": SHARE,
}
WORKLOADS = [
    tcp.workload(
        TCP,
        f"8 TCP streams over {LINK_TITLE}",
        tcp.Case(8, PACE, pings=PINGS),
        **OF_RATES,
    ),
    tcp.workload(
        UDP,
        f"UDP, {FLOOD_MBIT} Mbit/s into the same link",
        tcp.Case(1, PACE, FLOOD, PINGS),
        **OF_RATES,
    ),
    tcp.workload(
        VOICE,
        "voice, 50 packets/s, beside a bulk transfer",
        tcp.Case(4, PACE, pings=CALL),
        floor=None,
        probe="voice packet",
        latency_share=SHARE,
    ),
    pktgen.workload(
        DIRECT,
        f"2 pktgen senders into {LINK_TITLE}",
        pktgen.Case(2, options=LINK),
        floor=None,
    ),
    Workload(
        Row(
            DEAD,
            "dead reader, living peer, one socket",
            "packets",
            floor=SAME,
            above_upstream=True,
            lossless=False,  # nobody reads: tail drop is intended
        ),
        beside_dead_reader,
    ),
]
