# SPDX-License-Identifier: GPL-2.0-or-later
"""Queues are opened, closed, attached and detached while others are stopped."""

from __future__ import annotations

from contextlib import AbstractContextManager

from lab.guest.devices import HERE, THERE, attach
from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_TAP
from sluice.netlink import Client
from tests.kernel.scenarios import _tap
from tests.kernel.scenarios import _traffic as net

ROUNDS = 20  # each closes three queues: 50 made 5.10 panic, while it could


def _stop_all(env: Env, device: _tap.Tap) -> int:
    """Fills every ring; returns how many packets were sent."""
    sent = 0
    while any(q.state != "stopped" for q in net.read_queues()):
        assert sent < 20_000, net.read_queues()
        sent += net.send_over_flows(200)
    return sent


def _drain(env: Env, device: _tap.Tap) -> None:
    """Reads until the qdiscs and the rings hold nothing."""
    env.wait_for(lambda: device.is_drained(net.counters), "qdisc and rings empty")
    net.wait_until_open(env)


def _assert_all_flow(env: Env, device: _tap.Tap) -> None:
    """Packets of all flows are read, except those that the qdisc drops because they
    waited too long."""
    _drain(env, device)
    before = net.counters()
    read_before = device.read_count
    sent = net.send_over_flows(64)

    def all_arrived() -> bool:
        device.read_all()
        dropped = net.counters().qdisc_drops - before.qdisc_drops
        return device.read_count - read_before + dropped >= sent

    env.wait_for(all_arrived, f"{sent} packets read or dropped by the qdisc")
    assert device.read_count > read_before
    assert net.counters().lost_at_ring == before.lost_at_ring


@scenario(on="newest-native")
def every_queue_stops_and_wakes_on_its_own(env: Env) -> None:
    env.load("stall_ms=60000")
    device = env.enter(_tap.tap(queues=3, ring=100, qdisc="mq"))
    sent = _stop_all(env, device)
    device.read(1)
    env.wait_for(lambda: net.read_queues()[1].wakes_timer, "queue 1 wakes")
    states = [q.state for q in net.read_queues()]
    assert states[0] == states[2] == "stopped", states
    _drain(env, device)
    now = net.counters()
    assert now.lost_at_ring == 0, now
    assert device.read_count + now.qdisc_drops == sent, (now, sent)


def _close_detach_and_open(env: Env, device: _tap.Tap) -> None:
    """Of three queues, while all are stopped: no stopped queue is left. When the first
    is detached or closed the driver moves the last one to its place."""
    _stop_all(env, device)
    device.set_attached(0, False)
    _assert_all_flow(env, device)
    _stop_all(env, device)
    device.set_attached(0, True)
    _assert_all_flow(env, device)
    _stop_all(env, device)
    device.close_queue(2)  # which is the first by now
    _assert_all_flow(env, device)
    _stop_all(env, device)
    device.close_queue(1)
    _assert_all_flow(env, device)
    for _ in range(2):
        device.open_queue()
    _stop_all(env, device)
    _assert_all_flow(env, device)
    assert len(net.read_queues()) == 3


@scenario(deadline=120)
def closed_and_detached_queues_leave_no_stopped_queue(env: Env) -> None:
    env.load("stall_ms=60000")
    _close_detach_and_open(env, env.enter(_tap.tap(queues=3, ring=100, qdisc="mq")))


def _lockless_tap(ring: int) -> AbstractContextManager[_tap.Tap]:
    """With one queue. mq is attached before others are opened, so these have pfifo_fast,
    which is lockless; some kernels reset it unlocked when its queue is closed
    (docs/kernels.md)."""
    return _tap.tap(ring=ring, qdisc="mq", flags=IFF_TAP | _tap.IFF_MULTI_QUEUE)


@scenario(deadline=120)
def queues_with_lockless_qdiscs_leave_no_stopped_queue(env: Env) -> None:
    env.load("stall_ms=60000")
    device = env.enter(_lockless_tap(ring=100))
    for _ in range(2):
        device.open_queue()
    _close_detach_and_open(env, device)


@scenario
def queues_close_while_packets_wait_for_them(env: Env) -> str:
    env.load("stall_ms=60000")
    device = env.enter(_lockless_tap(ring=300))
    states = set()
    with _tap.Readers(device), net.Flood(senders=3, flows=16) as senders:
        for _ in range(ROUNDS):
            for _ in range(3):
                device.open_queue()
            senders.wait_for_more(env, 1000, "1000 packets are sent")
            states |= {q.state for q in net.read_queues()}
            while len(device.queues) > 1:
                device.close_queue(len(device.queues) - 1)
        senders.end()
    _assert_all_flow(env, device)
    assert "lockless" not in states, states
    return f"{net.read_stops()} stops"


@scenario
def lockless_qdisc_of_several_queues_holds_packets_where_that_is_safe(env: Env) -> None:
    env.load("stall_ms=60000")
    unsafe = _tap.frees_twice(env)
    device = env.enter(_tap.tap(queues=2, ring=100, qdisc="pfifo_fast"))
    net.send_over_flows(600)
    states = {queue.state for queue in net.read_queues()}
    if unsafe:
        assert states == {"lockless"} and not net.read_stops(), net.read_queues()
        assert net.counters().lost_at_ring > 0, net.counters()
    else:  # one qdisc: a stopped queue holds the packets of the other, too
        assert "stopped" in states and not net.counters().lost_at_ring, net.counters()
        _assert_all_flow(env, device)


@scenario(on="newest-native")
def reader_of_a_persistent_device_closes_and_reopens(env: Env) -> None:
    env.load("stall_ms=60000")
    device = env.enter(_tap.tap(ring=100))
    device.set_persistent(True)
    for _ in range(5):
        _stop_all(env, device)
        device.close_queue(0)
        env.wait_for(
            lambda: net.read_queues()[0].state == "unread", "no stopped queue is left"
        )
        net.send(50)  # without a reader the driver drops them before the ring
        device.open_queue()
        _tap.wait_for_carrier(env)
        _assert_all_flow(env, device)
    queue = net.read_queues()[0]
    assert queue.stops >= 5, queue


@scenario
def deleted_device_leaves_its_reader_alive(env: Env) -> None:
    """Its file makes a new device of the same name, which is served."""
    env.load("stall_ms=60000")
    device = env.enter(_tap.tap(ring=100))
    _stop_all(env, device)
    env.run("ip", "link", "del", HERE.name)
    with Client() as client:
        assert client.devices() == []
    assert device.read(0) == 0, "a packet of the deleted device"
    device.make_again()
    attach(HERE, THERE, ring=100)
    assert net.read_device().state == "served"
    _stop_all(env, device)
    _assert_all_flow(env, device)


@scenario(on="newest-native")
def device_without_a_reader_is_served_once_it_has_one(env: Env) -> None:
    env.run("ip", "tuntap", "add", "dev", HERE.name, "mode", "tap")
    env.defer(env.run, "sh", "-c", f"ip link del {HERE.name} 2>&- || true")
    env.run("ip", "link", "set", HERE.name, "up")
    env.load("stall_ms=60000")
    assert net.read_device().state == "unread"
    device = env.enter(_tap.tap(ring=100))
    env.wait_for(lambda: net.read_device().state == "served", "served")
    _tap.wait_for_carrier(env)
    _stop_all(env, device)
    _assert_all_flow(env, device)
