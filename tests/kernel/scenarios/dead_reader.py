# SPDX-License-Identifier: GPL-2.0-or-later
"""A reader that stops reading, for a while or for good."""

from __future__ import annotations

import time

from lab.guest.devices import HERE
from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_TAP
from sluice.netlink import Client
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._frames import Freed, send_frames
from tests.kernel.scenarios._tap import IFF_MULTI_QUEUE, tap


@scenario
def dead_reader_does_not_block_sender(env: Env) -> None:
    """One stop, or more if timers are late by more than a quarter of `stall_ms`."""
    env.load()
    net.sink(env, ring=50, paused=True)
    with net.Flood(senders=2) as senders:
        env.wait_for(lambda: net.read_queue().state == "stalled", "the stall")
        senders.wait_for_more(env, 5000, "senders go on")
        sent = senders.end()
    env.wait_for(lambda: not net.counters().held, "the qdisc is empty")
    queue, now = net.read_queue(), net.counters()
    assert queue.stalls >= 1 and queue.drops > 0, queue
    assert 0 < queue.stops <= net.STOPS_OF_A_DEAD_READER, queue
    assert queue.longest_stop_ns < net.LONGEST_STOP_NS, queue
    assert now.lost_at_ring > 0 and net.gone(now) + queue.fill == sent, (now, queue, sent)


@scenario
def dead_reader_cannot_end_its_stall(env: Env) -> None:
    """TUNSETPERSIST needs no capability, and notifies of a change of the device."""
    env.load()
    device = env.enter(tap(ring=50))
    with net.Flood(senders=1) as senders:
        env.wait_for(lambda: net.read_queue().state == "stalled", "the stall")
        before = net.read_queue()
        for _ in range(20):
            device.set_persistent(True)
            device.set_persistent(False)
            senders.wait_for_more(env, 10, "the sender goes on")
        after = net.read_queue()
        senders.end()
    assert (after.state, after.stops) == ("stalled", before.stops), (before, after)


@scenario
def dead_reader_that_attaches_anew_holds_its_senders_no_longer(env: Env) -> None:
    """Its ring is emptied each time. stall_ms: longer than the pauses of a host."""
    stall_seconds = 6
    env.load(f"stall_ms={1000 * stall_seconds}")
    device = env.enter(tap(ring=50, flags=IFF_TAP | IFF_MULTI_QUEUE))
    with net.Flood(senders=1) as senders:
        env.wait_for(lambda: net.read_queue().state == "stalled", "the stall")
        begin = time.monotonic()
        for stalls in range(2, 7):
            device.set_attached(0, False)
            device.set_attached(0, True)
            env.wait_for(lambda: net.read_queue().stalls == stalls, "the next stall")
        seconds = time.monotonic() - begin
        senders.wait_for_more(env, 100, "the sender goes on")
        senders.end()
    assert seconds < 5 * stall_seconds / 2, seconds


@scenario
def resumed_reader_loses_nothing_again(env: Env) -> None:
    env.load()
    reader = net.sink(env, ring=50, paused=True)
    net.send(500)
    env.wait_for(lambda: net.read_queue().state == "stalled", "the stall")
    reader.resume()
    net.assert_lossless_again(env)
    assert net.read_queue().state != "stalled"


@scenario(on="newest-native")
def reader_that_drained_the_ring_is_alive(env: Env) -> None:
    """The index of the reader is then where it was when the queue stalled."""
    env.load()
    ring = 50
    device = env.enter(tap(ring=ring))
    net.send(500)
    env.wait_for(lambda: net.read_queue().state == "stalled", "the stall")
    env.wait_for(lambda: not net.counters().held, "the qdisc is empty")
    assert net.read_queue().fill == ring, net.read_queue()
    device.read_all()
    before, lost = net.read_queue(), net.counters().lost_at_ring
    assert before.fill == 0 and before.drops > 0, before
    net.send(1)
    after = net.read_queue()
    assert (after.fill, after.drops) == (1, before.drops), (before, after)
    assert after.state != "stalled" and net.counters().lost_at_ring == lost, after


@scenario
def device_of_a_killed_reader_is_released(env: Env) -> None:
    """The packets in its ring and in its qdisc are freed, each once."""
    env.load("stall_ms=60000")  # still stopped when it is killed
    freed = Freed(env)
    reader = net.sink(env, ring=50, paused=True)
    send_frames(500)
    assert net.read_queue().state == "stopped"
    reader.kill()
    env.wait_for(
        lambda: HERE.name not in env.run("ip", "-br", "link"), "the device is gone"
    )
    env.wait_for(lambda: freed.count >= 500, "all frames are freed")
    assert freed.count == 500, "more were freed than sent"
    with Client() as client:
        assert client.devices() == []
