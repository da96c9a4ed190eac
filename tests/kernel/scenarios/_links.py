# SPDX-License-Identifier: GPL-2.0-or-later
"""Other links: a bridge, its ports and what is behind them; a veth pair, of which one end
receives what the other sends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from lab.failure import Skipped, WorkloadError
from lab.guest.devices import Device, add_neighbour, run_tool, silence_first_netns
from lab.guest.scenarios import Env
from tests.kernel.scenarios._traffic import read_device, read_queues, send

SOURCE, ENTRY = "source0", "entry0"


def add_link(name: str, kind: str, *options: str) -> None:
    try:
        run_tool(["ip", "link", "add", name, "type", kind, *options])
    except WorkloadError as error:
        if "Unknown device type" in str(error):
            raise Skipped(f"this kernel has no {kind}") from None
        raise


@contextlib.contextmanager
def empty_bridge() -> Iterator[None]:
    """bridge0, with an address and no port."""
    add_link("bridge0", "bridge")
    try:
        run_tool(["ip", "addr", "add", "10.93.0.1/24", "dev", "bridge0"])
        run_tool(["ip", "link", "set", "bridge0", "up"])
        yield
    finally:
        run_tool(["ip", "link", "del", "bridge0"])


def add_port(name: str) -> None:
    """Makes this device a port of the bridge, with fq_codel."""
    run_tool(["ip", "link", "set", name, "master", "bridge0", "up"])
    run_tool(["tc", "qdisc", "replace", "dev", name, "root", "fq_codel"])


def port_mac(number: int) -> str:
    """The address of the machine behind a port; the first port has number 2."""
    return f"02:00:00:00:93:{number:02x}"


def teach(names: Sequence[str]) -> list[str]:
    """Makes a static neighbour behind each port; returns their addresses."""
    addresses = []
    for number, name in enumerate(names, 2):
        mac, address = port_mac(number), f"10.93.0.{number}"
        run_tool(["bridge", "fdb", "replace", mac, "dev", name, "master", "static"])
        add_neighbour("bridge0", Device(name, address, mac))
        addresses.append(address)
    return addresses


def assert_full_ring_stops(env: Env, guest: Device, bridge: str) -> None:
    """Of a device that has a qdisc; the bridge forwards to it."""
    add_neighbour(bridge, guest)
    send(2000, guest)

    def stopped() -> bool:
        return any(queue.stops for queue in read_queues(guest))

    env.wait_for(stopped, "the queue of the guest's tap is stopped")
    assert read_device(guest).state == "served"


def veth_pair(env: Env) -> None:
    """Both ends up, until the scenario's end, or that of a namespace they are in."""
    silence_first_netns()
    env.run("ip", "link", "add", SOURCE, "type", "veth", "peer", "name", ENTRY)
    env.defer(env.run, "sh", "-c", f"ip link del {SOURCE} 2>&- || true")
    for name in (SOURCE, ENTRY):
        env.run("ip", "link", "set", name, "up")
