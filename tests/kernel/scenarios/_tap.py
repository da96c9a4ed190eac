# SPDX-License-Identifier: GPL-2.0-or-later
"""A tun or tap device whose queues the scenario itself opens and reads."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Callable

from lab.guest.devices import HERE, THERE, Counters, Device, attach, silence_first_netns
from lab.guest.scenarios import Env
from lab.guest.tun import (
    IFF_MULTI_QUEUE,
    IFF_NO_PI,
    IFF_TAP,
    IFF_TUN,
    TUNSETIFF,
    open_queue,
    request,
)
from tests.kernel.scenarios._threads import Repeated
from tests.kernel.scenarios._traffic import read_queue, read_queues, send

TUNSETPERSIST = 0x400454CB
TUNSETSNDBUF = 0x400454D4
TUNSETQUEUE = 0x400454D9
TUNSETSTEERINGEBPF = 0x800454E0
IFF_ATTACH_QUEUE, IFF_DETACH_QUEUE = 0x0200, 0x0400
PACKET_MAX = 65536
GULP = 30  # packets
SLOWEST = 0.2  # seconds it rests


class Tap:
    """Nothing is read until read() or read_all() is called."""

    def __init__(self, flags: int, name: str = HERE.name) -> None:
        self.flags = flags | IFF_NO_PI
        self.name = name
        self.queues: list[int] = []
        self.read_count = 0
        self.on_packet: Callable[[bytes], None] = lambda packet: None

    def open_queue(self) -> int:
        """Opens one more queue, or makes the device; returns the place in self.queues."""
        self.queues.append(open_queue(self.flags, self.name))
        return len(self.queues) - 1

    def make_again(self) -> None:
        """After the device was deleted: with its first file."""
        fcntl.ioctl(self.queues[0], TUNSETIFF, request(self.flags, self.name))

    def close_queue(self, place: int) -> None:
        os.close(self.queues.pop(place))

    def set_attached(self, place: int, attached: bool) -> None:
        flag = IFF_ATTACH_QUEUE if attached else IFF_DETACH_QUEUE
        fcntl.ioctl(self.queues[place], TUNSETQUEUE, request(flag, ""))

    def set_persistent(self, persistent: bool) -> None:
        fcntl.ioctl(self.queues[0], TUNSETPERSIST, int(persistent))

    def set_steering(self, program: int) -> None:
        """A loaded socket filter chooses the queue; with -1 the driver does."""
        fcntl.ioctl(self.queues[0], TUNSETSTEERINGEBPF, struct.pack("i", program))

    def read(self, place: int, most: int = 1 << 30) -> int:
        """Reads the packets that are there, up to `most`; returns their number."""
        count = 0
        with contextlib.suppress(OSError):  # EAGAIN: empty; EBADFD: detached
            while count < most:
                self.on_packet(os.read(self.queues[place], PACKET_MAX))
                count += 1
        self.read_count += count
        return count

    def read_all(self) -> int:
        return sum(self.read(place) for place in range(len(self.queues)))

    def is_drained(self, counters: Callable[[], Counters]) -> bool:
        """Reads what is there; returns whether rings and qdiscs held no packet.

        The qdiscs are read first: their packets may enter a ring that was just read.
        """
        held = counters().held
        return self.read_all() == 0 and held == 0


class Readers(Repeated):
    """A thread for each queue reads it until end(), in gulps with rests; then what is
    left in them is read."""

    def __init__(self, device: Tap) -> None:
        self._device = device
        places = range(len(device.queues))
        super().__init__(
            *(functools.partial(device.read, place, GULP) for place in places),
            rest=0.002,
        )

    def slow_down(self) -> None:
        self.rest = min(2 * self.rest, SLOWEST)

    def end(self) -> None:
        super().end()
        self._device.read_all()


def frees_twice(env: Env) -> bool:
    """Whether the module, which is loaded, found that this kernel frees packets twice
    when one of several queues with one lockless qdisc is closed (docs/kernels.md)."""
    device = Tap(IFF_TAP | IFF_MULTI_QUEUE, "trial0")
    try:
        for _ in range(2):
            device.open_queue()
        attach(Device(device.name, "10.93.0.1", ""), THERE, qdisc="pfifo_fast")
        states = {queue.state for queue in read_queues(Device(device.name, "", ""))}
        assert states in ({"open"}, {"lockless"}), states
        env.run("ip", "link", "set", device.name, "down")
        return states == {"lockless"}
    finally:
        while device.queues:
            device.close_queue(0)


def slow_reader(device: Tap, rest: float, burst: int = 1) -> Repeated:
    """Rests, reads a burst from the first queue, and begins again, until it is left."""
    return Repeated(lambda: device.read(0, burst), rest=rest)


def wait_for_carrier(env: Env, name: str = HERE.name) -> None:
    """After a reader came back: until then the core's noop qdisc drops all packets."""
    state = Path(f"/sys/class/net/{name}/operstate")

    def is_up() -> bool:
        return state.read_text().strip() in ("up", "unknown")

    env.wait_for(is_up, f"{name} has a carrier")


@contextlib.contextmanager
def tap(
    queues: int = 1, ring: int = 100, qdisc: str = "fq_codel", flags: int = IFF_TAP
) -> Iterator[Tap]:
    """HERE with so many queues; removed at the end, persistent or not."""
    silence_first_netns()
    device = Tap(flags | (IFF_MULTI_QUEUE if queues > 1 else 0))
    try:
        for _ in range(queues):
            device.open_queue()
        here = replace(HERE, mac="") if flags & IFF_TUN else HERE
        attach(here, THERE, qdisc=qdisc, ring=ring)
        yield device
    finally:
        if device.queues:
            device.set_persistent(False)
        while device.queues:
            device.close_queue(0)


def stall_again(env: Env, device: Tap) -> None:
    """One more stall: the reader takes what is there, and then nothing."""
    before = read_queue().stalls
    device.read(0)

    def stalled_again() -> bool:
        """Sends again and again: the ring may hold many packets after a stall."""
        send(30)
        return read_queue().stalls > before

    env.wait_for(stalled_again, "one more stall")
