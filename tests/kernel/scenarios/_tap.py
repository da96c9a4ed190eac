# SPDX-License-Identifier: GPL-2.0-or-later
"""A tun or tap device whose queues the scenario itself opens and reads."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
from dataclasses import replace
from typing import Callable, Iterator, List

from lab.guest.devices import HERE, THERE, Counters, attach, silence_first_netns
from lab.guest.tun import IFF_NO_PI, IFF_TAP, IFF_TUN, open_queue, request

TUNSETPERSIST = 0x400454CB
TUNSETSNDBUF = 0x400454D4
TUNSETQUEUE = 0x400454D9
TUNSETSTEERINGEBPF = 0x800454E0
IFF_MULTI_QUEUE, IFF_ATTACH_QUEUE, IFF_DETACH_QUEUE = 0x0100, 0x0200, 0x0400
PACKET_MAX = 65536
GULP = 30  # packets
SLOWEST = 0.2  # seconds it rests


def frees_twice() -> bool:
    """Whether this kernel frees packets twice when one of several queues is closed
    whose qdisc is lockless and not empty (docs/kernels.md)."""
    return os.uname().release.startswith("5.10.")


class Tap:
    """Nothing is read until read() or read_all() is called."""

    def __init__(self, flags: int, name: str = HERE.name) -> None:
        self.flags = flags | IFF_NO_PI
        self.name = name
        self.queues: List[int] = []
        self.read_count = 0
        self.on_packet: Callable[[bytes], None] = lambda packet: None

    def open_queue(self) -> int:
        """One more queue, or the device itself; its place in self.queues."""
        self.queues.append(open_queue(self.flags, self.name))
        return len(self.queues) - 1

    def close_queue(self, place: int) -> None:
        os.close(self.queues.pop(place))

    def set_attached(self, place: int, attached: bool) -> None:
        flag = IFF_ATTACH_QUEUE if attached else IFF_DETACH_QUEUE
        fcntl.ioctl(self.queues[place], TUNSETQUEUE, request(flag, ""))

    def set_persistent(self, persistent: bool) -> None:
        fcntl.ioctl(self.queues[0], TUNSETPERSIST, int(persistent))

    def set_steering(self, program: int) -> None:
        """A loaded socket filter chooses the queue; -1: the driver itself."""
        fcntl.ioctl(self.queues[0], TUNSETSTEERINGEBPF, struct.pack("i", program))

    def read(self, place: int, most: int = 1 << 30) -> int:
        """Packets that can be read at once, up to `most`."""
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
        """Reads what is there; whether neither the rings nor the qdiscs held any.

        The qdiscs are asked first: what they hold may come into a ring just read.
        """
        held = counters().held
        return self.read_all() == 0 and held == 0


class Readers:
    """A thread for each queue that reads it until end(), in gulps with rests."""

    def __init__(self, device: Tap) -> None:
        self._device = device
        self.rest = 0.002  # seconds, between gulps
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=(place,), daemon=True)
            for place in range(len(device.queues))
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, place: int) -> None:
        while not self._ended.wait(self.rest):
            self._device.read(place, GULP)

    def slow_down(self) -> None:
        self.rest = min(2 * self.rest, SLOWEST)

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=10)


class SlowReader:
    """Reads a burst from the first queue, rests, and begins again, until it is left."""

    def __init__(self, device: Tap, rest: float, burst: int = 1) -> None:
        self._device, self._rest, self._burst = device, rest, burst
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._ended.wait(self._rest):
            self._device.read(0, self._burst)

    def __enter__(self) -> SlowReader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=10)


@contextlib.contextmanager
def reading(device: Tap) -> Iterator[Readers]:
    """Every queue is read; at the end what is left, too."""
    readers = Readers(device)
    try:
        yield readers
    finally:
        readers.end()
        device.read_all()


@contextlib.contextmanager
def tap(
    queues: int = 1, ring: int = 100, qdisc: str = "fq_codel", flags: int = IFF_TAP
) -> Iterator[Tap]:
    """HERE with so many queues; gone at the end, persistent or not."""
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
