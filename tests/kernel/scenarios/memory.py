# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory of packets that wait in qdiscs where stock would have dropped them.

tests/kernel/test_programs.py plays this in a machine with 1 GB.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

from lab.guest.devices import run_tool, silence_first_netns
from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_TAP
from sluice.netlink import Client
from tests.kernel.scenarios._bridge import add_bridge
from tests.kernel.scenarios._frames import FRAME
from tests.kernel.scenarios._memory import read_kb
from tests.kernel.scenarios._tap import Tap
from tests.kernel.scenarios._threads import Repeated

PORTS = 150
MOST_KB = 1 << 20
LIMIT = 10_240  # packets in a qdisc, fq_codel's default
BROADCASTS = 12_000
FRAME_BYTES = 1400
REST = 0.05  # seconds, of each reader after each packet
REMEDY = 500  # a lower limit
DEFAULT_QDISC = Path("/proc/sys/net/core/default_qdisc")


@contextlib.contextmanager
def _ports() -> Iterator[list[Tap]]:
    """Taps with fq_codel as ports of one bridge."""
    silence_first_netns()
    kind = DEFAULT_QDISC.read_text()
    DEFAULT_QDISC.write_text("fq_codel")
    ports = [Tap(IFF_TAP, f"port{number}") for number in range(PORTS)]
    add_bridge()
    try:
        for port in ports:
            port.open_queue()
        lines = [f"link set {port.name} master bridge0 up\n" for port in ports]
        lines.append("link set bridge0 up\n")
        run_tool(["ip", "-batch", "-"], stdin="".join(lines))
        yield ports
    finally:
        for port in ports:
            port.close_queue(0)
        run_tool(["ip", "link", "del", "bridge0"])
        DEFAULT_QDISC.write_text(kind)


def _slow_readers(ports: list[Tap]) -> Repeated:
    """One packet of each port, then a rest, until it is left."""
    return Repeated(lambda: [port.read(0, 1) for port in ports], rest=REST)


def _held() -> int:
    """Packets in all qdiscs."""
    qdiscs = json.loads(run_tool(["tc", "-j", "-s", "qdisc"]))
    return sum(one.get("qlen", 0) for one in qdiscs)


def _most_taken() -> dict[str, int]:
    """A flood of broadcasts; the most packets that waited, and memory they took."""
    frame = FRAME.ljust(FRAME_BYTES, b"x")
    before = read_kb("MemAvailable")
    most = {"packets": 0, "MB": 0}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind(("bridge0", 0))
        for number in range(BROADCASTS):
            with contextlib.suppress(OSError):  # ENOBUFS: a port dropped it
                out.send(frame)
            if number % 1000 == 999:
                taken = (before - read_kb("MemAvailable")) // 1024
                most = {
                    "packets": max(most["packets"], _held()),
                    "MB": max(most["MB"], taken),
                }
    return most


def _set_ports(ports: list[Tap], **settings: int) -> None:
    with Client() as client:
        for port in ports:
            client.set_device(socket.if_nametoindex(port.name), **settings)


def _limit(ports: list[Tap], packets: int) -> None:
    what = f"root fq_codel limit {packets}"
    lines = (f"qdisc replace dev {port.name} {what}\n" for port in ports)
    run_tool(["tc", "-batch", "-"], stdin="".join(lines))


def _drain(env: Env, ports: list[Tap]) -> None:
    """A lower limit drops what waits in the qdiscs; the rings are read."""
    _limit(ports, 1)

    def drained() -> bool:
        held = _held()
        return sum(port.read_all() for port in ports) == 0 and held == 0

    env.wait_for(drained, "qdiscs and rings empty", 120)


@scenario(deadline=1200, often=False)
def broadcasts_to_150_slow_taps_take_what_the_qdiscs_may_hold(env: Env) -> str:
    """Readers of 20 packets/s, and one socket that sends to all of them. With
    stall_ms=60000 nothing is let through: packets wait until the send buffer is full."""
    if read_kb("MemTotal") > MOST_KB:
        env.skip("a machine with 1 GB; tests/kernel/test_programs.py has one")
    env.load()
    ports = env.enter(_ports())
    most: dict[str, dict[str, int]] = {}

    def measure(name: str, limit: int = LIMIT) -> None:
        _limit(ports, limit)
        with _slow_readers(ports):
            most[name] = _most_taken()
        _drain(env, ports)

    _set_ports(ports, on=0)
    measure("stock")
    _set_ports(ports, on=1)
    measure("sluice")
    _set_ports(ports, stall_ms=60000)
    measure("stall_ms=60000")
    measure(f"and limit {REMEDY}", REMEDY)
    assert most["stock"]["packets"] == 0, most
    assert most["stall_ms=60000"]["packets"] > PORTS, most
    assert most[f"and limit {REMEDY}"]["packets"] <= PORTS * REMEDY, most
    return ", ".join(
        f"{name}: {one['packets']} packets, {one['MB']} MB" for name, one in most.items()
    )
