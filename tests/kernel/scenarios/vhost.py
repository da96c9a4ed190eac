# SPDX-License-Identifier: GPL-2.0-or-later
"""vhost-net reads the ring, as for a virtual machine."""

from __future__ import annotations

from lab.scenarios import Env, scenario
from lab.workloads.devices import Reader
from lab.workloads.devices import sink as open_sink
from tests.kernel.scenarios._traffic import (
    assert_flows,
    counters,
    flood,
    gone,
    pktgen,
    read_queue,
    send,
    set_device,
    wait_for_stops,
    wait_until_read,
)


def _sink(env: Env, ring: int, paused: bool = False) -> Reader:
    return env.enter(
        open_sink(
            env.helper("reader"), "sluice", ring=ring, paused=paused, vhost=True
        )
    )


@scenario
def vhost_sockets_lose_nothing(env: Env) -> None:
    env.load("stall_ms=60000")
    reader = _sink(env, ring=100)
    with flood(senders=4) as senders:
        wait_for_stops(env, more_than=20)
        sent = senders.end()
    now = wait_until_read(env, sent)
    assert now.lost_at_ring == 0, now
    assert now.read + now.qdisc_drops == sent, (now, sent)

    def all_handed_on() -> bool:
        (count,) = reader.pause()
        reader.resume()
        return count["read"] == now.read

    env.wait_for(all_handed_on, f"the guest gets {now.read} packets")


def _direct_senders(env: Env, senders: int) -> None:
    env.load("stall_ms=60000")
    _sink(env, ring=500)
    sent = sum(pktgen(env, senders, packets=60_000 // senders))
    now = wait_until_read(env, sent)
    assert (now.read, now.lost_at_ring) == (sent, 0), (now, sent)
    assert read_queue().stops > 0, "the ring never filled: proves nothing"


@scenario
def vhost_one_direct_sender_loses_nothing(env: Env) -> None:
    _direct_senders(env, 1)


@scenario
def vhost_four_direct_senders_lose_nothing(env: Env) -> None:
    _direct_senders(env, 4)


@scenario
def vhost_paused_guest_stalls_and_resumes(env: Env) -> None:
    """The guest hands back no buffers: vhost-net stops reading."""
    env.load("stall_ms=100")
    reader = _sink(env, ring=50, paused=True)
    with flood(senders=2) as senders:
        env.wait_for(lambda: read_queue().state == "stalled", "the stall")
        sent = senders.sent
        env.wait_for(lambda: senders.sent > sent + 2000, "senders go on")
        senders.end()
    reader.resume()
    assert_flows(env)
    set_device(stall_ms=60000)  # a starved host must not make it stall again
    before = counters()
    send(2000)
    after = wait_until_read(env, gone(before) + 2000)
    assert after.lost_at_ring == before.lost_at_ring, after


@scenario
def vhost_unload_under_traffic_loses_no_queue(env: Env) -> None:
    _sink(env, ring=100)
    with flood(senders=2) as senders:
        for _ in range(3):
            env.load("stall_ms=60000")
            wait_for_stops(env, more_than=20)
            env.run("rmmod", "sluice")
        senders.end()
    assert_flows(env)
