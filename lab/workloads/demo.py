# SPDX-License-Identifier: GPL-2.0-or-later
"""What make demo shows: rows whose reader has a pace, or never reads.

The reader is a link of 1000 packets/s, which an emulator on a busy host keeps up with as
a CPU does. So the rates are the same under each variant, and what differs is what
packets wait for, and what is lost. Packets to a voice flow and to a living peer carry
the time at which they were sent, and the kernel notes when they arrive: how fast the
lab's own processes run does not matter.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab.failure import WorkloadError
from lab.guest import devices
from lab.guest.devices import FAR, HERE, NEAR, THERE, Device
from lab.guest.env import GuestEnv
from lab.guest.latency import Latency
from lab.guest.program import SO_RCVBUFFORCE, open_socket
from lab.row import Row, Sample, Workload, sample
from lab.workloads import pktgen, tcp

LINK_US = 1000
LINK = ("--link-us", str(LINK_US), "--steady")
LINK_TITLE = f"a link of {1_000_000 // LINK_US} packets/s"
PACE = tcp.Pace(LINK_TITLE, LINK, block=tcp.SMALL_BLOCK)
PING_SECONDS = 0.05  # they take a part of the link
FLOOD_MBIT = 50  # more than four times what the link takes
FLOOD = ("--udp", "--bitrate", f"{FLOOD_MBIT}M", "--length", str(tcp.UDP_PAYLOAD_BYTES))
SAME = 0.95  # a rate is the same from here on
LEAST_MBIT = 10.0  # of the link's 11.6: an emulator with less does not keep its pace
SHARE = 1 / 3  # sluice's ping is at most this much of stock's
BUFFER_BYTES = 16 << 20  # of a receiver: it is read at the end
PORT = 9
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; not in Python's module
TIMESPEC = struct.Struct("ll")
STAMP = struct.Struct("q")  # ns, at the beginning of each packet
VOICE_SECONDS, VOICE_BYTES = 0.02, 172  # between packets; G.711 with RTP's header
BULK_STREAMS = 4
PEER_PACKETS, PEER_SECONDS = 3000, 0.001  # between packets
STUCK_SECONDS = 2  # a call that takes longer is stuck for ever


def receiver(device: Device, address: str) -> socket.socket:
    """Its packets are read at the end, with the times at which they came."""
    opened = open_socket(device, socket.AF_INET, socket.SOCK_DGRAM, 1)
    opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    opened.setblocking(False)
    opened.bind((address, PORT))
    return opened


def read_times(opened: socket.socket) -> list[tuple[int, int]]:
    """Of each packet that waits: when it was sent, and when it came, ns."""
    times = []
    with contextlib.suppress(BlockingIOError):
        while True:
            data, control, _, _ = opened.recvmsg(2048, socket.CMSG_SPACE(TIMESPEC.size))
            seconds, ns = TIMESPEC.unpack(control[0][2])
            times.append((STAMP.unpack_from(data)[0], seconds * 10**9 + ns))
    return times


def ticks(seconds: float) -> Iterator[None]:
    """One each so many seconds; those that are late follow at once."""
    started = time.monotonic()
    for number in itertools.count():
        time.sleep(max(0.0, started + number * seconds - time.monotonic()))
        yield


def stamped(size: int) -> bytes:
    return STAMP.pack(time.time_ns()).ljust(size, b"\0")


def speak(over: Callable[[], bool]) -> int:
    """A call beside a load, 50 packets a second, one way, until that is over: how many
    packets were sent."""
    sent = 0
    opened = open_socket(NEAR, socket.AF_INET, socket.SOCK_DGRAM, STUCK_SECONDS)
    time.sleep(tcp.START_SECONDS)  # until the load is there
    with opened, contextlib.suppress(BlockingIOError):
        for _ in ticks(VOICE_SECONDS):
            if over():
                break
            sent += 1
            opened.sendto(stamped(VOICE_BYTES), (FAR.address, PORT))
    return sent


def call(variant: str, seconds: float, env: GuestEnv) -> Sample:
    """A voice flow beside a bulk transfer over the link; Mbit/s of that transfer."""
    with tcp.forwarding(PACE, variant, env) as reader, ThreadPoolExecutor() as pool:
        with receiver(FAR, FAR.address) as peer:
            options = PACE.tcp_options
            bulk = pool.submit(tcp.run_client, BULK_STREAMS, seconds, *options)
            sent = speak(bulk.done)
            carried = bulk.result()
            after = tcp.settle(reader)
            times = read_times(peer)
    delays = tuple((came - began) / 1e6 for began, came in times)
    heard = Latency(sent, len(times), delays)
    return sample(carried.mbit, after, {}, heard, read=reader.read)


def send_to_both() -> tuple[int, bool]:
    """To the reader and to the living peer in turn, from one socket that blocks: how
    many pairs, and whether the socket was stuck."""
    opened = open_socket(HERE, socket.AF_INET, socket.SOCK_DGRAM, STUCK_SECONDS)
    with opened:
        for number, _ in zip(range(PEER_PACKETS), ticks(PEER_SECONDS)):
            try:
                for address in (THERE.address, "127.0.0.1"):
                    opened.sendto(stamped(200), (address, PORT))
            except BlockingIOError:
                return number, True
    return PEER_PACKETS, False


def beside_dead_reader(variant: str, seconds: float, env: GuestEnv) -> Sample:
    """Packets that reach the living peer; the reader of the device reads nothing."""
    with devices.sink(env.helper("reader"), variant, paused=True) as reader:
        with receiver(HERE, "127.0.0.1") as peer:
            pairs, stuck = send_to_both()
            ended = time.time_ns()
            came = [arrived for _, arrived in read_times(peer)]
        if not came:
            raise WorkloadError("the living peer got nothing")
        # The reader reads at full pace, so that every packet can be counted.
        reader.resume()
        after = devices.wait_drained([HERE])
        reader.end()
    silence = max(b - a for a, b in zip(came, [*came[1:], ended]))  # the longest, ns
    extra = {"stuck": stuck, "pairs": pairs, "silence_ms": round(silence / 1e6, 1)}
    return sample(len(came), after, extra, read=reader.read)


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
        tcp.Case(8, PACE, ping_seconds=PING_SECONDS),
        **OF_RATES,
    ),
    tcp.workload(
        UDP,
        f"UDP, {FLOOD_MBIT} Mbit/s into the same link",
        tcp.Case(1, PACE, FLOOD, ping_seconds=PING_SECONDS),
        **OF_RATES,
    ),
    Workload(
        Row(
            VOICE,
            "voice, 50 packets/s, beside a bulk transfer",
            "Mbit/s",
            probe="voice packet",
            latency_share=SHARE,
        ),
        call,
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
