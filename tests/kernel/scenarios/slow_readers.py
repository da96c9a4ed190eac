# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers that read nothing, little, or in bursts: how long senders wait for them.

With default parameters, unless a scenario sets others.
"""

from __future__ import annotations

from typing import Any

from lab.guest.devices import HERE, THERE
from lab.guest.scenarios import Env, scenario
from lab.workloads.dead_reader import send_in_turn
from tests.kernel.scenarios._tap import slow_reader, tap
from tests.kernel.scenarios._traffic import (
    STOPS_OF_A_DEAD_READER,
    assert_senders_are_held_shortly,
    compare,
    counters,
    flood,
    gone,
    pausing,
    read_queue,
    set_device,
    sink,
)


def _reader_of_one_packet_per(env: Env, milliseconds: int) -> str:
    env.load()
    reader = sink(env, ring=500, options=["--link-us", str(1000 * milliseconds)])
    return assert_senders_are_held_shortly(env, reader)


@scenario(on="newest-native")
def dead_reader_holds_senders_shortly(env: Env) -> str:
    """One stop, or more if timers are late by more than a quarter of `stall_ms`."""
    env.load()
    reader = sink(env, ring=500, paused=True)
    return assert_senders_are_held_shortly(env, reader, stops=STOPS_OF_A_DEAD_READER)


@scenario(on="newest-native")
def reader_of_one_packet_per_second_holds_senders_shortly(env: Env) -> str:
    return _reader_of_one_packet_per(env, 1000)


@scenario(on="newest-native")
def reader_of_one_packet_per_249_ms_holds_senders_shortly(env: Env) -> str:
    return _reader_of_one_packet_per(env, 249)


@scenario(on="newest-native")
def reader_of_one_packet_per_200_ms_holds_senders_shortly(env: Env) -> str:
    return _reader_of_one_packet_per(env, 200)


@scenario(on="newest-native")
def reader_of_one_packet_per_100_ms_holds_senders_shortly(env: Env) -> str:
    return _reader_of_one_packet_per(env, 100)


@scenario(on="newest-native")
def reader_of_one_packet_per_10_ms_holds_senders_shortly(env: Env) -> str:
    return _reader_of_one_packet_per(env, 10)


@scenario(on="newest-native")
def reader_of_one_packet_per_ms_holds_senders_shortly(env: Env) -> str:
    return _reader_of_one_packet_per(env, 1)


def _reader_that_rests(env: Env, rest: float, reads: float, **how: Any) -> str:
    env.load()
    reader = sink(env, ring=500, **how)
    with pausing(reader, rest, reads) as rests:
        return assert_senders_are_held_shortly(env, reader, rests)


@scenario(on="newest-native")
def reader_in_bursts_holds_senders_shortly(env: Env) -> str:
    return _reader_that_rests(env, rest=0.24, reads=0.01)


@scenario(on="newest-native")
def guest_that_is_paused_and_resumed_holds_senders_shortly(env: Env) -> str:
    """It returns no buffers while it is paused, so vhost-net reads nothing."""
    return _reader_that_rests(env, rest=0.4, reads=0.1, vhost=True)


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
    return compare(lambda: living_peer_reached(env), HERE.name)


def _loses_nothing(env: Env, rest: float, burst: int, ring: int) -> str:
    """A reader of so many packets after each rest; a starved host lets none stall."""
    device = env.enter(tap(ring=ring))
    set_device(stall_ms=2000)
    with slow_reader(device, rest, burst), flood(senders=1) as senders:
        env.wait_for(lambda: read_queue().stops > 20, "stops", 30)
        sent = senders.end()
    assert read_queue().stalls == 0, read_queue()
    env.wait_for(lambda: device.is_drained(counters), "qdisc and ring empty")
    now = counters()
    assert now.lost_at_ring == 0 and gone(now) == sent, (now, sent)
    return f"{read_queue().stops} stops, 0 lost"


@scenario(on="newest-native")
def operator_makes_a_slow_reader_lossless(env: Env) -> str:
    """At most 200 packets/s: too few for the default; stall_ms=2000 asks for 25."""
    env.load()
    return _loses_nothing(env, rest=0.01, burst=2, ring=100)


@scenario(on="newest-native")
def token_bucket_of_83_packets_loses_nothing(env: Env) -> str:
    """A program for virtual machines that limits what its guest receives: it leaves the
    tap alone until its bucket is filled again, each 100 ms."""
    env.load()
    return _loses_nothing(env, rest=0.1, burst=83, ring=1000)


@scenario(on="newest-native")
def token_bucket_of_400_packets_loses_nothing(env: Env) -> str:
    env.load()
    return _loses_nothing(env, rest=0.1, burst=400, ring=1000)
