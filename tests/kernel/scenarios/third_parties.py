# SPDX-License-Identifier: GPL-2.0-or-later
"""Senders that send to others besides a slow reader, with sluice off and on.

All with default parameters, in one boot. Counted is what a program that waits for
socket memory sends to the others.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import time
from typing import Sequence

from lab.guest.devices import HERE, THERE
from lab.guest.latency import ping
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._bridge import bridge, port_mac, teach
from tests.kernel.scenarios._tap import TUNSETSNDBUF, Tap, slow_reader, tap
from tests.kernel.scenarios._threads import Repeated
from tests.kernel.scenarios._traffic import (
    DISCARD_PORT,
    compare,
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


def _frame(number: int) -> bytes:
    """From the machine behind the first port to the one behind this port."""
    macs = bytes.fromhex((port_mac(number) + port_mac(2)).replace(":", ""))
    return macs + b"\x88\xb5" + b"x" * 500


class Writer(Repeated):
    """Writes a frame for each of the other ports in turn, and waits for room.

    It polls, as QEMU does: the driver wakes nobody who sleeps in write().
    """

    def __init__(self, source: Tap) -> None:
        self._fd = source.queues[0]
        self._room = select.poll()
        self._room.register(self._fd, select.POLLOUT)
        fcntl.ioctl(self._fd, TUNSETSNDBUF, struct.pack("i", SEND_BUFFER))
        self.rounds = 0
        super().__init__(self._write_round)

    def _write_round(self) -> None:
        for number in (3, 4):
            self._write(_frame(number))
        self.rounds += 1

    def _write(self, frame: bytes) -> None:
        while not self.ended:
            try:
                os.write(self._fd, frame)
                return
            except BlockingIOError:
                self._room.poll(100)


@scenario(deadline=120, everywhere=False)
def writer_with_a_finite_send_buffer_reaches_the_other_port(env: Env) -> str:
    """A virtual machine on a bridge sends to a reader of 20 packets/s and to a fast one;
    packets that wait for the slow one are charged to the send buffer of its tap."""
    env.load()
    taps = env.enter(bridge(NAMES))
    for number, name in enumerate(NAMES, 2):
        fdb = ("bridge", "fdb", "replace", port_mac(number), "dev", name)
        env.run(*fdb, "master", "static")

    env.enter(slow_reader(taps["slow0"], 0.05))
    env.enter(slow_reader(taps["fast0"], PAUSE, BURST))

    def count() -> int:
        before = writer.rounds
        time.sleep(SECONDS)
        return writer.rounds - before

    with Writer(taps["source0"]) as writer:
        return compare(count, *NAMES)


def _send_in_turn(addresses: Sequence[str], seconds: float = SECONDS) -> int:
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


def _one_of_two_queues_is_unread(env: Env, qdisc: str) -> str:
    """Sockets with flows over both queues; counts what the reader of the first reads."""
    env.load()
    device = env.enter(tap(queues=2, ring=100, qdisc=qdisc))
    if qdisc.endswith("htb default 10"):
        add = ("tc", "class", "add", "dev", HERE.name, "parent", "1:", "classid")
        env.run(*add, "1:10", "htb", "rate", "10gbit")
    env.enter(slow_reader(device, PAUSE, BURST))

    def count() -> int:
        with flood(senders=2, flows=16) as senders:
            senders.wait_for_more(env, 1000, "the flood")
            before = device.read_count
            time.sleep(SECONDS)
            reached = device.read_count - before
            senders.end()
        return reached

    result = compare(count, HERE.name)
    assert read_stops(1) > 0, "the unread queue was never stopped"
    return result


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
                result = pings.end()
            senders.end()
        wait_until_empty(env)
        return result.sent, result.received

    set_device(on=0)
    lost = counters().lost_at_ring
    stock_sent, stock = count()
    assert counters().lost_at_ring > lost, "the ring never filled"
    set_device(on=1)
    sent, answered = count()
    assert read_stops() > 0, "the queue was never stopped"
    assert answered * stock_sent >= stock * sent, (answered, sent, stock, stock_sent)
    return f"answered: stock {stock} of {stock_sent}, sluice {answered} of {sent}"
