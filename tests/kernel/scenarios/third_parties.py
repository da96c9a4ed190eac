# SPDX-License-Identifier: GPL-2.0-or-later
"""Senders that have others to reach than a slow reader, with sluice off and on.

All with default parameters, in one boot. What is counted is what a program that
waits for its own packets still gets through.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import threading
import time
from typing import Callable

from lab.guest.devices import HERE, THERE, Device
from lab.guest.latency import ping
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._bridge import bridge, port_mac
from tests.kernel.scenarios._tap import TUNSETSNDBUF, SlowReader, Tap, tap
from tests.kernel.scenarios._traffic import (
    counters,
    flood,
    read_stops,
    set_device,
    sink,
    wait_until_empty,
)

SECONDS = 4.0
SEND_BUFFER = 64 * 1024
NAMES = ("source0", "slow0", "fast0")
PAUSE, BURST = 0.001, 500  # of a fast reader


def _compare(count: Callable[[], int], switch: Callable[[int], None]) -> str:
    """Off and on by turns; on must reach more than half of off."""
    reached = {0: 0, 1: 0}
    for on in (0, 1, 0, 1):
        switch(on)
        reached[on] += count()
    off, on = reached[0], reached[1]
    assert on > off / 2, reached
    return f"stock {off}, sluice {on} packets in {2 * SECONDS:g} s"


def _frame(number: int) -> bytes:
    """From the machine behind the first port to the one behind this port."""
    macs = bytes.fromhex((port_mac(number) + port_mac(2)).replace(":", ""))
    return macs + b"\x88\xb5" + b"x" * 500


class Writer:
    """Writes a frame for each of the other ports in turn, and waits for room.

    It polls, as QEMU does: the driver wakes nobody who sleeps in write().
    """

    def __init__(self, source: Tap) -> None:
        self._fd = source.queues[0]
        self._room = select.poll()
        self._room.register(self._fd, select.POLLOUT)
        fcntl.ioctl(self._fd, TUNSETSNDBUF, struct.pack("i", SEND_BUFFER))
        self.rounds = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        frames = [_frame(number) for number in (3, 4)]
        while not self._ended.is_set():
            for frame in frames:
                self._write(frame)
            self.rounds += 1

    def _write(self, frame: bytes) -> None:
        while not self._ended.is_set():
            try:
                os.write(self._fd, frame)
                return
            except BlockingIOError:
                self._room.poll(100)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=10)
        assert not self._thread.is_alive(), "the writer is stuck"


@scenario(deadline=120, everywhere=False)
def writer_with_a_finite_send_buffer_reaches_the_other_port(env: Env) -> str:
    """A virtual machine on a bridge sends to one of 20 packets/s and to a fast one;
    what waits for the slow one is charged to the send buffer of its tap."""
    env.load()
    taps = env.enter(bridge(NAMES))
    for number, name in enumerate(NAMES, 2):
        fdb = ("bridge", "fdb", "replace", port_mac(number), "dev", name)
        env.run(*fdb, "master", "static")

    def switch(on: int) -> None:
        for name in NAMES:
            set_device(Device(name, "", ""), on=on)

    env.enter(SlowReader(taps["slow0"], 0.05))
    env.enter(SlowReader(taps["fast0"], PAUSE, BURST))

    def count() -> int:
        before = writer.rounds
        time.sleep(SECONDS)
        return writer.rounds - before

    with Writer(taps["source0"]) as writer:
        return _compare(count, switch)


def _one_of_two_queues_is_unread(env: Env, qdisc: str) -> str:
    """Sockets with flows over both queues: what the reader of the first one gets."""
    env.load()
    device = env.enter(tap(queues=2, ring=100, qdisc=qdisc))
    if qdisc.endswith("htb default 10"):
        add = ("tc", "class", "add", "dev", HERE.name, "parent", "1:", "classid")
        env.run(*add, "1:10", "htb", "rate", "10gbit")
    env.enter(SlowReader(device, PAUSE, BURST))

    def count() -> int:
        with flood(senders=2, flows=16) as senders:
            senders.wait_for_more(env, 1000, "the flood")
            before = device.read_count
            time.sleep(SECONDS)
            reached = device.read_count - before
            senders.end()
        return reached

    told = _compare(count, lambda on: set_device(on=on))
    assert read_stops(1) > 0, "the unread queue was never stopped"
    return told


@scenario(deadline=120, often=False)
def unread_queue_of_two_under_mq_leaves_the_other_its_rate(env: Env) -> str:
    return _one_of_two_queues_is_unread(env, "mq")


@scenario(deadline=120, everywhere=False)
def unread_queue_of_two_under_fq_codel_leaves_the_other_its_rate(env: Env) -> str:
    return _one_of_two_queues_is_unread(env, "fq_codel")


@scenario(deadline=120, often=False)
def unread_queue_of_two_under_htb_leaves_the_other_its_rate(env: Env) -> str:
    return _one_of_two_queues_is_unread(env, "handle 1: htb default 10")


@scenario(deadline=120, everywhere=False)
def pings_beside_four_floods_are_answered_as_without_sluice(env: Env) -> str:
    """A sparse flow through fq_codel, before a reader of 10,000 packets/s."""
    env.load()
    sink(env, ring=500, options=("--link-us", "100"))

    def count() -> tuple[int, int]:
        with flood(senders=4) as senders:
            senders.wait_for_more(env, 3000, "the flood")
            with ping(HERE, THERE) as pings:
                time.sleep(SECONDS)
                told = pings.end()
            senders.end()
        wait_until_empty(env)
        return told.sent, told.received

    set_device(on=0)
    lost = counters().lost_at_ring
    stock_sent, stock = count()
    assert counters().lost_at_ring > lost, "the ring never filled"
    set_device(on=1)
    sent, answered = count()
    assert read_stops() > 0, "the queue was never stopped"
    assert answered * stock_sent >= stock * sent, (answered, sent, stock, stock_sent)
    return f"answered: stock {stock} of {stock_sent}, sluice {answered} of {sent}"
