# SPDX-License-Identifier: GPL-2.0-or-later
"""An AF_XDP socket that sends in copy mode, without a library."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import socket
import struct
from collections.abc import Sequence

# Numbers of linux/if_xdp.h.
AF_XDP, SOL_XDP = 44, 283
MMAP_OFFSETS, TX_RING, UMEM_REG, FILL_RING, COMPLETION_RING = 1, 3, 4, 5, 6
TX_AT, COMPLETION_AT = 0x80000000, 0x180000000
COPY = 1 << 1  # the core copies each frame into an skb
SLOTS, CHUNK = 64, 2048
INDEX = struct.Struct("=I")
DESCRIPTOR = struct.Struct("=QII")  # place in the shared memory, length, options


class _Ring:
    """One ring of the socket, mapped; places: of its indices and its entries."""

    def __init__(self, fd: int, at: int, places: Sequence[int], entry: int) -> None:
        self._producer, self._consumer, self._entries = places[:3]
        self._map = mmap.mmap(fd, self._entries + SLOTS * entry, offset=at)
        self._entry = entry

    def unmap(self) -> None:
        self._map.close()

    @property
    def producer(self) -> int:
        return int(INDEX.unpack_from(self._map, self._producer)[0])

    def produce(self, entry: bytes) -> None:
        number = self.producer
        place = self._entries + number % SLOTS * self._entry
        self._map[place : place + self._entry] = entry
        INDEX.pack_into(self._map, self._producer, number + 1)

    def consume_all(self) -> int:
        """How many entries were ever produced; the ring is empty afterwards."""
        number = self.producer
        INDEX.pack_into(self._map, self._consumer, number)
        return number


class CopySocket:
    """Sends on the first queue of the interface with this index."""

    def __init__(self, ifindex: int) -> None:
        self._socket = socket.socket(AF_XDP, socket.SOCK_RAW)
        self._memory = mmap.mmap(-1, SLOTS * CHUNK)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        memory = struct.pack("=QQII", address, SLOTS * CHUNK, CHUNK, 0)
        self._socket.setsockopt(SOL_XDP, UMEM_REG, memory)
        for ring in (FILL_RING, COMPLETION_RING, TX_RING):
            self._socket.setsockopt(SOL_XDP, ring, INDEX.pack(SLOTS))
        # Four numbers for each ring: of receiving, sending, filling, completion.
        offsets = self._socket.getsockopt(SOL_XDP, MMAP_OFFSETS, 128)
        places = struct.unpack("=16Q", offsets)
        fd = self._socket.fileno()
        self._sent = _Ring(fd, TX_AT, places[4:8], DESCRIPTOR.size)
        self._completed = _Ring(fd, COMPLETION_AT, places[12:16], 8)
        self._bind(ifindex)

    def _bind(self, ifindex: int) -> None:
        """Python's own bind() does not know the family."""
        address = struct.pack("=HHIII", AF_XDP, COPY, ifindex, 0, 0)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.bind(self._socket.fileno(), address, len(address)):
            raise OSError(ctypes.get_errno(), "bind() of an AF_XDP socket")

    @property
    def completed(self) -> int:
        """Frames that the driver took or dropped so far."""
        return self._completed.consume_all()

    def send(self, frame: bytes) -> None:
        """Puts the frame into the ring unless that is full, and has the kernel send
        what is there; it goes on with the rest at the next call."""
        number = self._sent.producer
        if number - self.completed < SLOTS:
            place = number % SLOTS * CHUNK
            self._memory[place : place + len(frame)] = frame
            self._sent.produce(DESCRIPTOR.pack(place, len(frame), 0))
        with contextlib.suppress(OSError):  # EAGAIN: the queue is stopped
            self._socket.send(b"", socket.MSG_DONTWAIT)

    def close(self) -> int:
        """How many frames the driver took or dropped. The maps hold the socket."""
        completed = self.completed
        self._sent.unmap()
        self._completed.unmap()
        self._socket.close()
        return completed
