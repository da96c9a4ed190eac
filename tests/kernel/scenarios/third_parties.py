# SPDX-License-Identifier: GPL-2.0-or-later
"""Senders that send to others besides a slow reader, with sluice off and on.

All with default parameters, in one boot. Counted is what reaches the others.
"""

from __future__ import annotations

import fcntl
import functools
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, Callable

from lab.guest import tasks
from lab.guest.devices import HERE, THERE, Device, read_counters, silence_first_netns
from lab.guest.devices import reader as open_reader
from lab.guest.latency import ping
from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_TAP
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._links import add_port, empty_bridge, port_mac, teach
from tests.kernel.scenarios._tap import TUNSETSNDBUF, Tap, slow_reader, tap
from tests.kernel.scenarios._threads import Repeated

SECONDS = 4.0
SEND_BUFFER = 64 * 1024
SLOW, FAST = Device("slow0", "", port_mac(9)), Device("fast0", "", port_mac(9))
PAUSE, BURST = 0.001, 500  # of a fast reader


def _read_ports(env: Env, pace: int) -> list[str]:
    """A bridge of two ports, read by two processes: the first at so many packets/s (0:
    not at all), the second at once; returns the addresses of the machines behind them.

    The fast reader and this process have a CPU each: if they shared one, that would
    change the rate more than what is compared.
    """
    silence_first_netns()
    env.enter(empty_bridge())
    cpus = os.sched_getaffinity(0)
    slow: dict[str, Any] = {"options": ("--link-us", str(1_000_000 // max(pace, 1)))}
    for port, how in ((SLOW, slow if pace else {"paused": True}), (FAST, {})):
        reader = open_reader(env.helper("reader"), "sink", (port,), "sluice", **how)
        readers = tasks.read_tasks(env.enter(reader).pid, vhost=False)
        tasks.pin(readers, max(cpus))
        add_port(port.name)
    tasks.pin([0], min(cpus))
    env.defer(os.sched_setaffinity, 0, cpus)
    return teach((SLOW.name, FAST.name))


def _read_by_the_fast_port(send: Callable[[], object]) -> int:
    before = read_counters(FAST).read
    send()
    return read_counters(FAST).read - before


def _send_in_turn(addresses: Sequence[str], seconds: float = SECONDS) -> int:
    """Sends one packet to each address, again and again, from one blocking socket;
    returns the rounds."""
    rounds, end = 0, time.monotonic() + seconds
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.settimeout(10)
        while time.monotonic() < end:
            for address in addresses:
                out.sendto(b"x" * 200, (address, net.DISCARD_PORT))
            rounds += 1
    return rounds


def _socket_reaches_the_other_port(env: Env, pace: int) -> str:
    """One blocking socket sends to both ports in turn."""
    env.load()
    addresses = _read_ports(env, pace)
    send = functools.partial(_send_in_turn, addresses)
    names = (SLOW.name, FAST.name)
    return net.compare(lambda: _read_by_the_fast_port(send), *names)


def _beside_slow_ports(env: Env, play: Callable[[Env, int], str]) -> str:
    """A port that is not read, and those of so many packets/s."""
    told = []
    for pace in (0, 50, 100):
        name = f"{pace} packets/s"
        with net.case(env, name):
            told.append(f"{name}: {play(env, pace)}")
    return "; ".join(told)


@scenario(deadline=300, on="newest-native")
def socket_beside_a_slow_port_reaches_the_other(env: Env) -> str:
    return _beside_slow_ports(env, _socket_reaches_the_other_port)


def _frame(number: int) -> bytes:
    """From the machine behind a third port to the one behind this port."""
    macs = bytes.fromhex((port_mac(number) + port_mac(4)).replace(":", ""))
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
        super().__init__(self._write_round)

    def _write_round(self) -> None:
        for number in (2, 3):
            self._write(_frame(number))

    def _write(self, frame: bytes) -> None:
        while not self.ended:
            try:
                os.write(self._fd, frame)
                return
            except BlockingIOError:
                self._room.poll(100)


def _writer_reaches_the_other_port(env: Env, pace: int) -> str:
    """A virtual machine on a bridge sends to both ports in turn; packets that wait for
    the slow one are charged to the send buffer of its tap."""
    env.load()
    _read_ports(env, pace)
    source = Tap(IFF_TAP, "source0")
    source.open_queue()
    env.defer(source.close_queue, 0)
    add_port(source.name)
    fdb = ("bridge", "fdb", "replace", port_mac(4), "dev", source.name)
    env.run(*fdb, "master", "static")

    names = (source.name, SLOW.name, FAST.name)
    wait = functools.partial(time.sleep, SECONDS)
    with Writer(source):
        return net.compare(lambda: _read_by_the_fast_port(wait), *names)


@scenario(deadline=300, on="newest-native")
def writer_with_a_send_buffer_beside_a_slow_port_reaches_the_other(env: Env) -> str:
    return _beside_slow_ports(env, _writer_reaches_the_other_port)


def _one_of_two_queues_is_unread(env: Env, qdisc: str) -> str:
    """Sockets with flows over both queues; counts what the reader of the first reads."""
    env.load()
    device = env.enter(tap(queues=2, ring=100, qdisc=qdisc))
    env.enter(slow_reader(device, PAUSE, BURST))

    def count() -> int:
        with net.Flood(senders=2, flows=16) as senders:
            senders.wait_for_more(env, 1000, "the flood")
            before = device.read_count
            time.sleep(SECONDS)
            reached = device.read_count - before
            senders.end()
        return reached

    result = net.compare(count, HERE.name)
    assert net.read_stops(1) > 0, "the unread queue was never stopped"
    return result


@scenario(deadline=240, on="newest-native")
def unread_queue_of_two_leaves_the_other_its_rate(env: Env) -> str:
    told = []
    for qdisc in ("mq", "fq_codel"):
        with net.case(env, qdisc):
            told.append(f"{qdisc}: {_one_of_two_queues_is_unread(env, qdisc)}")
    return "; ".join(told)


@scenario(deadline=120, on="newest-native")
def pings_beside_four_floods_are_answered_as_without_sluice(env: Env) -> str:
    """A sparse flow through fq_codel, before a reader of 10,000 packets/s."""
    env.load()
    net.sink(env, ring=500, options=("--link-us", "100"))

    def count() -> tuple[int, int]:
        with net.Flood(senders=4) as senders:
            senders.wait_for_more(env, 3000, "the flood")
            with ping(HERE, THERE) as end_ping:
                time.sleep(SECONDS)
                result = end_ping()
            senders.end()
        net.wait_until_empty(env)
        return result.sent, result.received

    net.set_device(on=0)
    lost = net.counters().lost_at_ring
    stock_sent, stock = count()
    if env.patience > 2 and net.counters().lost_at_ring == lost:
        env.skip("senders are too slow here to fill the ring")
    assert net.counters().lost_at_ring > lost, "the ring never filled"
    net.set_device(on=1)
    sent, answered = count()
    assert net.read_stops() > 0, "the queue was never stopped"
    under_way = 3  # pings whose answer came after the end
    said = f"answered: stock {stock} of {stock_sent}, sluice {answered} of {sent}"
    assert (answered + under_way) * stock_sent >= stock * sent, said
    return said
