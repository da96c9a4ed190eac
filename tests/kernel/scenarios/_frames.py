# SPDX-License-Identifier: GPL-2.0-or-later
"""Frames of which each is accounted for: read, or freed by the kernel.

tx_dropped and the counts of a qdisc are not enough: a qdisc that is replaced
takes its counts along, and a ring that shrinks frees what has no room. The
trace event kfree_skb sees every frame; these have an EtherType of their own.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct

from lab.guest.devices import HERE
from lab.guest.program import SO_SNDBUFFORCE
from lab.guest.scenarios import Env
from tests.kernel.scenarios._ftrace import TRACING, has_ftrace, mount_tracefs
from tests.kernel.scenarios._traffic import Flood, counters

PROTOCOL = 0x88B5  # "local experimental"
FRAME = b"\xff" * 6 + b"\x02\0\0\0\0\1" + PROTOCOL.to_bytes(2, "big") + b"x" * 46
SOL_PACKET, PACKET_VNET_HDR, PACKET_QDISC_BYPASS = 263, 15, 20  # linux/if_packet.h
ETHERTYPE = slice(12, 14)


def is_frame(packet: bytes) -> bool:
    """Whether it is one of these, and no IP packet."""
    return packet[ETHERTYPE] == FRAME[ETHERTYPE]


def bypassing_socket(name: str) -> socket.socket:
    """It sends frames into this device, past its qdisc. While the queue is stopped, and
    when the driver drops the frame, the kernel returns ENOBUFS."""
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
    out.bind((name, 0))
    return out


def send_segmented(packets: int, segments: int, name: str = HERE.name) -> None:
    """Sends TCP packets through the qdisc of which the core makes so many segments
    each: struct virtio_net_hdr asks for segments of 1000 bytes."""
    size, headers = 1000, 14 + 20 + 20  # Ethernet, IPv4, TCP
    needs_checksum, tcp_over_ipv4 = 1, 1
    data = b"x" * size * segments
    packet = b"".join(
        (
            struct.pack(
                "=BBHHHH", needs_checksum, tcp_over_ipv4, headers, size, 14 + 20, 16
            ),
            b"\xff" * 6 + b"\x02\0\0\0\0\1" + b"\x08\0",
            struct.pack(">BBHIBBHII", 0x45, 0, 40 + len(data), 0, 64, 6, 0, 1, 2),
            struct.pack(">HHIIBBHHH", 1, 2, 0, 0, 5 << 4, 0x10, 1000, 0, 0),
            data,
        )
    )
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
        out.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 28)
        out.bind((name, 0))
        for _ in range(packets):
            out.send(packet)


class Freed:
    """Frames that the kernel freed unread since this was made.

    required: a kernel without ftrace skips the scenario; else there is no count there.
    """

    def __init__(self, env: Env, required: bool = True) -> None:
        if required:
            mount_tracefs()
        self._env, self._counts = env, has_ftrace()
        if not self._counts:
            return
        self._own = TRACING / "instances" / f"frames{os.getpid()}"
        self._own.mkdir()
        env.defer(self._own.rmdir)
        event = self._own / "events" / "skb" / "kfree_skb"
        (event / "filter").write_text(f"protocol == {PROTOCOL}")
        (event / "enable").write_text("1")
        env.defer((event / "enable").write_text, "0")

    @property
    def count(self) -> int:
        """Events in the buffers of all CPUs, and those that were overwritten."""
        said = "".join(path.read_text() for path in self._own.glob("per_cpu/*/stats"))
        found = re.findall(r"^(?:entries|overrun): (\d+)$", said, re.MULTILINE)
        return sum(map(int, found))

    def assert_rest_read(self, frames: int) -> None:
        """Of so many frames, all of which are read or freed by now."""
        if not self._counts:
            assert 0 < counters().read <= frames, (counters(), frames)
            return
        self._env.wait_for(
            lambda: counters().read + self.count >= frames,
            "all frames are read or freed",
        )
        now = counters()
        assert now.read + self.count == frames, (now, self.count, frames)


def open_socket(name: str = HERE.name) -> socket.socket:
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind((name, PROTOCOL))
    return out


def send_frames(frames: int, name: str = HERE.name) -> None:
    """Sends so many frames through the qdisc; never waits for socket memory."""
    with open_socket(name) as out:
        out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 28)
        for _ in range(frames):
            out.send(FRAME)


class FrameFlood(Flood):
    """The same from packet sockets, which report each frame that is dropped."""

    def open_flow(self) -> socket.socket:
        return open_socket()

    def send_one(self, out: socket.socket) -> int:
        with contextlib.suppress(OSError):  # ENOBUFS: it was made, and dropped
            out.send(FRAME)
        return 1
