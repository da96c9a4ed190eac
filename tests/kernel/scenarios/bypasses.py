# SPDX-License-Identifier: GPL-2.0-or-later
"""Devices with rings that sluice does not serve: no qdisc is in front of them."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path

from lab.guest.scenarios import Env, scenario
from sluice.netlink import Client
from tests.kernel.scenarios._tap import PACKET_MAX
from tests.kernel.scenarios._veth import ENTRY, SOURCE, veth_pair

ABOVE, ABOVE_ADDRESS = "above0", "10.93.0.2"  # a macvtap or ipvtap on ENTRY


def _open_lower_tap(env: Env, kind: str) -> int:
    """ABOVE, a device of this kind, with a ring of 8 that nobody reads."""
    add = ("ip", "link", "add", "link", ENTRY, "name", ABOVE, "type", kind)
    try:
        env.run(*add)
    except AssertionError:
        env.skip(f"this kernel has no {kind}")
    env.defer(env.run, "ip", "link", "del", ABOVE)
    env.run("ip", "link", "set", ABOVE, "txqueuelen", "8", "up")
    env.run("ip", "address", "add", f"{ABOVE_ADDRESS}/24", "dev", ABOVE)
    node = f"/dev/tap{socket.if_nametoindex(ABOVE)}"
    tap_fd = os.open(node, os.O_RDWR | os.O_NONBLOCK)
    env.defer(os.close, tap_fd)
    return tap_fd


def _send_to_above(packets: int) -> None:
    """Sends IP packets that ENTRY receives for ABOVE."""
    mac = Path(f"/sys/class/net/{ABOVE}/address").read_text().strip()
    target = socket.inet_aton(ABOVE_ADDRESS)
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20, 0, 0, 64, 253, 0) + target + target
    folded = sum(struct.unpack(">10H", head))
    checksum = 0xFFFF - (folded + (folded >> 16)) % 0x10000
    head = head[:10] + struct.pack(">H", checksum) + head[12:]
    frame = bytes.fromhex(mac.replace(":", "")) + b"\x02\0\0\0\0\1\x08\0" + head
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((SOURCE, 0))
        for _ in range(packets):
            out.send(frame.ljust(60, b"\0"))


def _read_dropped() -> int:
    return int(Path(f"/sys/class/net/{ABOVE}/statistics/rx_dropped").read_text())


def _count_readable(tap_fd: int) -> int:
    count = 0
    with contextlib.suppress(BlockingIOError):
        while os.read(tap_fd, PACKET_MAX):
            count += 1
    return count


def _stays_stock(env: Env, kind: str) -> None:
    """23 packets into a ring of 8: with sluice as without it, 15 are lost."""
    veth_pair(env)
    tap_fd = _open_lower_tap(env, kind)
    for loaded in (False, True):
        if loaded:
            env.load()
            with Client() as client:
                assert client.devices() == [], "sluice serves it"
        before = _read_dropped()
        _send_to_above(23)
        env.wait_for(lambda: _read_dropped() >= before + 15, "15 packets are dropped")
        assert (_count_readable(tap_fd), _read_dropped() - before) == (8, 15)


@scenario
def macvtap_is_not_served(env: Env) -> None:
    _stays_stock(env, "macvtap")


@scenario
def ipvtap_is_not_served(env: Env) -> None:
    _stays_stock(env, "ipvtap")
