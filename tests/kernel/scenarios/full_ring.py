# SPDX-License-Identifier: GPL-2.0-or-later
"""What happens when the ring is full, with and without sluice."""

from __future__ import annotations

from lab.guest.devices import HERE
from lab.guest.devices import sink as open_sink
from lab.guest.program import read_sent
from lab.guest.scenarios import Env, scenario
from lab.processes import running
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._frames import FRAME, bypassing_socket, send_segmented

BYPASSING = 20_000  # frames of each sender that bypasses the qdisc


@scenario
def full_ring_stops_queue(env: Env) -> None:
    """23 packets into a ring of 8 that nobody reads: none is lost."""
    env.load("stall_ms=60000")
    # Packets wait for long on a slow host: this qdisc drops no old ones.
    reader = net.sink(env, ring=8, paused=True, qdisc="pfifo limit 1000")
    net.send(23)
    queue = net.read_queue()
    assert queue.state == "stopped", queue
    assert queue.stops == 1 and queue.ring == 8, queue
    assert queue.fill == queue.limit < 8, queue
    now = net.counters()
    assert now.lost_at_ring == 0 and now.qdisc_drops == 0, now
    assert now.held == 23 - queue.limit, now
    reader.resume()
    assert net.wait_until_read(env, 23).read == 23
    (queue,) = net.wait_until_open(env)
    assert queue.fill <= queue.low and queue.wakes_timer >= 1, queue


@scenario(on="newest-native")
def smallest_rings_lose_nothing(env: Env) -> None:
    """Rings of two to four slots: each packet may wait for the one before it."""
    env.load("stall_ms=60000")
    for ring in (2, 3, 4):
        with open_sink(
            *(env.helper("reader"), "sluice"), ring=ring, qdisc="pfifo limit 1000"
        ):
            net.send(500)
            now = net.wait_until_read(env, 500)
            assert (now.read, now.lost_at_ring, now.qdisc_drops) == (500, 0, 0), now
            assert net.read_queue().stops > 0, "the ring never filled: proves nothing"


@scenario(on="newest-native")
def small_limit_does_not_stall_a_living_reader(env: Env) -> None:
    """The limit is smaller than the batch in which a reader frees its slots."""
    # On a busy host no stall, and no lower limit because the reader is slow.
    env.load("stall_ms=5000", "target_us=0")
    net.sink(env, ring=1000, qdisc="pfifo limit 1000")
    for limit in (1, 8, 15):
        net.set_device(limit=limit)
        before = net.counters().read
        net.send(500)
        now = net.wait_until_read(env, before + 500)
        assert (now.lost_at_ring, now.qdisc_drops) == (0, 0), now
        queue = net.read_queue()
        assert queue.limit == limit and queue.stalls == 0, queue
        assert queue.stops > 0, "the limit was never reached: proves nothing"


@scenario
def segments_of_one_packet_stay_together(env: Env) -> None:
    """The queue stops behind the last of them, though it holds enough before that."""
    env.load("stall_ms=60000")
    reader = net.sink(env, ring=500, paused=True)
    net.set_qdisc(env, "pfifo")  # which drops nothing that waits for long
    net.set_device(limit=8)
    send_segmented(packets=1, segments=30)
    queue, now = net.read_queue(), net.counters()
    assert (queue.state, queue.stops, queue.fill) == ("stopped", 1, 30), queue
    assert (now.requeues, now.held) == (0, 0), now
    send_segmented(packets=19, segments=30)
    reader.resume()
    now = net.wait_until_read(env, 20 * 30)
    assert (now.read, now.lost_at_ring, now.qdisc_drops) == (600, 0, 0), now


@scenario
def ring_divides_segments_at_its_end(env: Env) -> None:
    """There is no room for all of them: the rest waits in the qdisc."""
    env.load("stall_ms=60000")
    reader = net.sink(env, ring=32, paused=True)
    net.set_qdisc(env, "pfifo")
    send_segmented(packets=4, segments=30)
    queue, now = net.read_queue(), net.counters()
    assert queue.state == "stopped" and queue.fill < 30, queue
    assert now.requeues > 0 and now.lost_at_ring == 0, now
    reader.resume()
    now = net.wait_until_read(env, 4 * 30)
    assert (now.read, now.lost_at_ring, now.qdisc_drops) == (120, 0, 0), now


@scenario
def off_keeps_tail_drop(env: Env) -> None:
    env.load()
    net.sink(env, ring=8, paused=True)
    net.set_device(on=0)
    assert net.read_device().state == "off"
    net.send(23)
    now = net.counters()
    assert (now.held, now.lost_at_ring) == (0, 15), now
    assert net.read_device().tx_dropped == 15, net.read_device()
    assert net.read_queue().stops == 0


@scenario
def unloaded_is_stock(env: Env) -> None:
    net.sink(env, ring=8, paused=True)
    net.send(23)
    assert net.counters().lost_at_ring == 15


@scenario
def noqueue_keeps_tail_drop(env: Env) -> None:
    env.load()
    net.sink(env, ring=8, paused=True)
    net.set_qdisc(env, "noqueue")
    net.send(23)
    assert net.counters().lost_at_ring == 15
    queue = net.read_queue()
    assert queue.state == "noqueue" and queue.stops == 0, queue


@scenario
def sockets_lose_nothing(env: Env) -> None:
    env.load("stall_ms=60000")
    reader = net.sink(env, ring=100)
    net.assert_flood_loses_nothing(env, reader, senders=4)


@scenario
def two_direct_senders_lose_nothing(env: Env) -> str:
    return net.assert_direct_senders_lose_nothing(env, 2, packets=100_000)


@scenario
def four_direct_senders_lose_nothing(env: Env) -> str:
    return net.assert_direct_senders_lose_nothing(env, 4, packets=100_000)


@scenario
def bypassing_senders_lose_nothing_at_the_ring(env: Env) -> None:
    """While the queue is stopped the core refuses their frames with ENOBUFS."""
    env.load("stall_ms=60000")
    net.sink(env, ring=500)
    frames = env.fewer(BYPASSING)
    argv = [env.helper("sender"), str(len(FRAME)), str(frames)]
    sockets = [env.enter(bypassing_socket(HERE.name)) for _ in range(4)]
    senders = [env.enter(running(argv, stdin=out)) for out in sockets]
    results = [read_sent(sender) for sender in senders]
    sent = sum(result["sent"] for result in results)
    assert sent + sum(one["refused"] for one in results) == 4 * frames, results
    now = net.wait_until_read(env, sent)
    assert (now.read, now.lost_at_ring) == (sent, 0), (now, results)
    assert net.read_queue().stops > 0, "the ring never filled: proves nothing"
