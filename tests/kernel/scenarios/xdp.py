# SPDX-License-Identifier: GPL-2.0-or-later
"""XDP_REDIRECT puts frames into a ring without the transmit function: they take
room that nobody is asked for."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Dict, Iterator

from lab.scenarios import Env, scenario
from tests.kernel.scenarios._bpf import redirected
from tests.kernel.scenarios._tap import reading, tap
from tests.kernel.scenarios._traffic import (
    counters,
    flood,
    ifindex,
    wait_for_stops,
    wait_until_empty,
)
from tests.kernel.scenarios._veth import ENTRY, SOURCE, veth_pair

EXPERIMENT = b"\x88\xb5"  # EtherType "local experimental"
ETHERTYPE = slice(12, 14)
FRAME = b"\xff" * 6 + b"\x02\0\0\0\0\1" + EXPERIMENT + b"x" * 46


@dataclass
class Seen:
    """What a reader got, by the way it came."""

    counts: Dict[str, int] = field(default_factory=lambda: {"qdisc": 0, "xdp": 0})

    def add(self, packet: bytes) -> None:
        self.counts["xdp" if packet[ETHERTYPE] == EXPERIMENT else "qdisc"] += 1


@contextlib.contextmanager
def _redirecting(burst: int, pause: float) -> Iterator[None]:
    """So many frames at once into the veth pair, again and again."""
    ended = threading.Event()

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
            out.bind((SOURCE, 0))
            while not ended.is_set():
                for _ in range(burst):
                    with contextlib.suppress(OSError):  # ENOBUFS: not sent
                        out.send(FRAME)
                time.sleep(pause)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=10)


def _mix(env: Env, ring: int, burst: int, pause: float) -> tuple[int, Seen]:
    """Both kinds of traffic, until the queue was stopped a few times: what the
    sockets sent, and what was read."""
    env.load("stall_ms=60000")
    device = env.enter(tap(ring=ring))
    veth_pair(env)
    try:
        env.enter(redirected(socket.if_nametoindex(ENTRY), ifindex()))
    except OSError as error:
        env.skip(f"this kernel's veth takes no XDP program ({error.strerror})")
    seen = Seen()
    device.on_packet = seen.add
    with reading(device) as readers:
        with _redirecting(burst, pause), flood(senders=2) as senders:
            wait_for_stops(env, readers, more_than=5)
            env.wait_for(lambda: seen.counts["xdp"] > 100, "redirected frames")
            sent = senders.end()
        wait_until_empty(env)
    return sent, seen


@scenario
def xdp_below_the_headroom_costs_the_qdisc_nothing(env: Env) -> None:
    """Few frames fit into the room kept for senders past the check."""
    sent, seen = _mix(env, ring=500, burst=2, pause=0.01)
    now = counters()
    assert seen.counts["qdisc"] + now.qdisc_drops == sent, (seen, now, sent)


@scenario
def xdp_flood_is_counted_and_leaves_no_stopped_queue(env: Env) -> None:
    """What no room was kept for shows in tx_dropped, whosoever it was."""
    sent, seen = _mix(env, ring=100, burst=200, pause=0)
    now = counters()
    lost = sent - seen.counts["qdisc"] - now.qdisc_drops
    assert 0 <= lost <= now.lost_at_ring, (lost, now)
    assert now.read == sum(seen.counts.values()), (now, seen)
