# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers that read little, or in bursts: how long senders wait for them.

With default parameters, unless a scenario sets others. A stop may last 250 ms; an
emulated machine on a busy host delays timers, so the scenarios allow four times as
much.
"""

from __future__ import annotations

import socket
import time
from typing import Sequence

from lab.guest.devices import THERE
from lab.guest.scenarios import Env, scenario
from lab.workloads.dead_reader import send_in_turn
from tests.kernel.scenarios._bridge import bridge, teach
from tests.kernel.scenarios._tap import slow_reader, tap
from tests.kernel.scenarios._traffic import (
    DISCARD_PORT,
    compare,
    counters,
    flood,
    gone,
    read_queue,
    set_device,
    sink,
)

STALL_MS = 250  # the default
LONGEST_STOP_NS = 4 * STALL_MS * 1_000_000
SECONDS = 4.0


def longest_stop_with(env: Env, rest: float, burst: int = 1) -> str:
    """Floods such a reader; returns the longest stop."""
    device = env.enter(tap(ring=500))
    with slow_reader(device, rest, burst), flood(senders=2) as senders:
        env.wait_for(lambda: read_queue().stops > 0, "the first stop")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            senders.wait_for_more(env, 100, "senders go on")
            time.sleep(0.05)
        senders.end()
    queue = read_queue()
    assert queue.longest_stop_ns < LONGEST_STOP_NS, queue
    return f"longest stop {queue.longest_stop_ns / 1e6:.0f} ms, {queue.stalls} stalls"


@scenario
def reader_of_one_packet_per_second_holds_senders_shortly(env: Env) -> str:
    env.load()
    return longest_stop_with(env, rest=1.0)


@scenario
def reader_of_one_packet_per_249_ms_holds_senders_shortly(env: Env) -> str:
    env.load()
    return longest_stop_with(env, rest=0.249)


@scenario
def reader_of_one_packet_per_100_ms_holds_senders_shortly(env: Env) -> str:
    env.load()
    return longest_stop_with(env, rest=0.1)


@scenario
def reader_of_one_packet_per_10_ms_holds_senders_shortly(env: Env) -> str:
    env.load()
    return longest_stop_with(env, rest=0.01)


@scenario
def reader_in_bursts_holds_senders_shortly(env: Env) -> str:
    env.load()
    return longest_stop_with(env, rest=0.24, burst=400)


def living_peer_reached(env: Env) -> int:
    """Packets to a living peer in 4 s, sent in turn with those to the slow one."""
    counts = send_in_turn(env, THERE.address)
    assert not counts["hung"], counts
    return int(counts["living"])


@scenario(deadline=90)
def slow_reader_blocks_no_third_party(env: Env) -> str:
    """A reader of 5 packets/s, one socket, two peers; compared with sluice off."""
    env.load()
    sink(env, ring=500, options=["--link-us", "200000"])
    set_device(on=0)
    without = living_peer_reached(env)
    set_device(on=1)
    reached = living_peer_reached(env)
    assert reached > without / 2, (reached, without)
    return f"{reached} of {without} packets"


@scenario
def operator_makes_a_slow_reader_lossless(env: Env) -> str:
    """At most 200 packets/s: too few for the default; stall_ms=2000 asks for 25."""
    env.load()
    device = env.enter(tap(ring=100))
    set_device(stall_ms=2000)
    with slow_reader(device, rest=0.01, burst=2), flood(senders=1) as senders:
        env.wait_for(lambda: read_queue().stops > 20, "stops", 30)
        sent = senders.end()
    assert read_queue().stalls == 0, read_queue()
    env.wait_for(lambda: device.is_drained(counters), "qdisc and ring empty")
    now = counters()
    assert now.lost_at_ring == 0 and gone(now) == sent, (now, sent)
    return f"{read_queue().stops} stops, 0 lost"


def _send_in_turn(addresses: Sequence[str], seconds: float) -> int:
    """Sends one packet to each address, again and again, from one blocking socket;
    returns the rounds."""
    rounds, end = 0, time.monotonic() + seconds
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.settimeout(10)
        while time.monotonic() < end:
            for address in addresses:
                out.sendto(b"x" * 200, (address, DISCARD_PORT))
            rounds += 1
    return rounds


@scenario(deadline=120, everywhere=False)
def bridge_with_a_paused_and_a_slow_port_serves_the_fast_one(env: Env) -> str:
    """One socket sends in turn to the machines behind three ports; the stops of two
    slow ports add up."""
    env.load()
    names = ("paused0", "slow0", "fast0")
    taps = env.enter(bridge(names))
    addresses = teach(names)
    with slow_reader(taps["slow0"], 0.05), slow_reader(taps["fast0"], 0.001, 500):
        result = compare(
            lambda: _send_in_turn(addresses, SECONDS), *names, share=0.25
        )
        fast = taps["fast0"].read_count
    assert fast > 1000, fast
    return f"rounds: {result}; {fast} packets read by the fast one"
