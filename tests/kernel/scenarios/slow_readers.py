# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers that read nothing, little, or in bursts: how long senders wait for them.

With default parameters, unless a scenario sets others.
"""

from __future__ import annotations

from lab.guest.devices import HERE, THERE
from lab.guest.scenarios import Env, scenario
from lab.workloads.dead_reader import send_in_turn
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._tap import slow_reader, tap

PACES_MS = (1000, 249, 200, 100, 10, 1)  # of a reader, for each packet
# Seconds that a reader rests, the packets that it takes then, and the ring. The first is
# too slow for the default: stall_ms=2000 asks for 25 packets/s. The others are programs
# for virtual machines that limit what a guest receives: they leave the tap alone until
# their bucket is filled again.
BURSTS = {
    "2 packets each 10 ms": (0.01, 2, 100),
    "83 packets each 100 ms": (0.1, 83, 1000),
    "400 packets each 100 ms": (0.1, 400, 1000),
}


@scenario(deadline=240, on="newest-native")
def readers_of_few_packets_hold_senders_shortly(env: Env) -> str:
    said = []
    for milliseconds in PACES_MS:
        pace = f"a packet each {milliseconds} ms"
        with net.case(env, pace):
            env.load()
            options = ["--link-us", str(1000 * milliseconds)]
            reader = net.sink(env, ring=500, options=options)
            said.append(f"{pace}: {net.assert_senders_are_held_shortly(env, reader)}")
    return "; ".join(said)


@scenario(on="newest-native")
def reader_in_bursts_holds_senders_shortly(env: Env) -> str:
    env.load()
    reader = net.sink(env, ring=500)
    with net.pausing(reader, rest=0.24, reads=0.01) as rests:
        return net.assert_senders_are_held_shortly(env, reader, rests)


def living_peer_reached() -> int:
    """Packets to a living peer in 4 s, sent in turn with those to the slow one."""
    sent = send_in_turn(THERE.address)
    assert not sent.hung, sent
    return sent.living


@scenario(deadline=90)
def slow_reader_blocks_no_third_party(env: Env) -> str:
    """A reader of 5 packets/s, one socket, two peers; compared with sluice off."""
    env.load()
    net.sink(env, ring=500, options=["--link-us", "200000"])
    return net.compare(living_peer_reached, HERE.name)


def _loses_nothing(env: Env, rest: float, burst: int, ring: int) -> None:
    """A reader of so many packets after each rest; a starved host lets none stall."""
    device = env.enter(tap(ring=ring))
    net.set_device(stall_ms=2000)
    with slow_reader(device, rest, burst), net.Flood(senders=1) as senders:
        env.wait_for(lambda: net.read_queue().stops > 20, "stops", 30)
        sent = senders.end()
    assert net.read_queue().stalls == 0, net.read_queue()
    env.wait_for(lambda: device.is_drained(net.counters), "qdisc and ring empty")
    now = net.counters()
    assert now.lost_at_ring == 0 and net.gone(now) == sent, (now, sent)


@scenario(deadline=180, on="newest-native")
def operator_makes_readers_in_bursts_lossless(env: Env) -> None:
    for name, burst in BURSTS.items():
        with net.case(env, name):
            env.load()
            _loses_nothing(env, *burst)
