# SPDX-License-Identifier: GPL-2.0-or-later
"""The driver's own interface: a queue of a tun or tap is a file, opened and set."""

from __future__ import annotations

import fcntl
import os
import struct

TUNSETIFF, TUNGETFEATURES, TUNSETOFFLOAD = 0x400454CA, 0x800454CF, 0x400454D0
IFF_TUN, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x0002, 0x1000, 0x4000
IFF_NAPI, IFF_NAPI_FRAGS, IFF_MULTI_QUEUE = 0x0010, 0x0020, 0x0100
IFF_BACKPRESSURE = 0x0080  # since 7.3


def request(flags: int, name: str) -> bytes:
    return struct.pack("16sH22x", os.fsencode(name), flags)


def open_queue(flags: int, name: str, options: int = os.O_NONBLOCK) -> int:
    """One more queue of a device, or the device itself; OSError if refused."""
    fd = os.open("/dev/net/tun", os.O_RDWR | options)
    try:
        fcntl.ioctl(fd, TUNSETIFF, request(flags, name))
    except OSError:
        os.close(fd)
        raise
    return fd


def ask_for_large_packets(queue: int) -> None:
    """All that this kernel has: those of UDP (TUN_F_USO4 and 6) came with 6.2."""
    try:
        fcntl.ioctl(queue, TUNSETOFFLOAD, 0x6F)
    except OSError:
        fcntl.ioctl(queue, TUNSETOFFLOAD, 0x0F)


def read_has_backpressure() -> bool:
    with open("/dev/net/tun", "rb", buffering=0) as tun:
        answer = fcntl.ioctl(tun, TUNGETFEATURES, struct.pack("I", 0))
    return bool(struct.unpack("I", answer)[0] & IFF_BACKPRESSURE)
