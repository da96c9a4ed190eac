# SPDX-License-Identifier: GPL-2.0-or-later
"""The path below a tunnel: two ends with a link each, and a router between.

The delay is the router's, the rate is the ends' links': what waits for its own
link counts against a sender's socket, as at a network card; what is delayed on
its way does not.
"""

from __future__ import annotations

import contextlib
import os
from typing import Iterator, List, Optional

from lab.workloads.devices import FAR, NEAR, Device, netns, run_tool

ROUTER = "router"
# The addresses the tunnels connect to.
NEAR_END = Device("wan0", "10.93.1.1", "", netns=NEAR.netns)
FAR_END = Device("wan0", "10.93.2.1", "", netns=FAR.netns)
DELAYED_PACKETS = 20000  # as many may be under way
# More than a socket's send buffer, so that the link makes the sender wait.
LINK_BYTES = 400_000
BURST_BYTES = 16_000


def delay_arguments(rtt_ms: int) -> List[str]:
    """The router's qdisc: half of the delay, for it is met twice."""
    return ["netem", "delay", f"{rtt_ms * 500}us", "limit", str(DELAYED_PACKETS)]


def link_arguments(rate_mbit: int) -> List[str]:
    """An end's qdisc: netem would let go of the sender's socket, tbf does not."""
    return (
        ["tbf", "rate", f"{rate_mbit}mbit"]
        + ["burst", str(BURST_BYTES), "limit", str(LINK_BYTES)]
    )


def _set_qdisc(name: str, device: str, arguments: List[str]) -> None:
    run_tool(["modprobe", f"sch_{arguments[0]}"])
    run_tool(["tc", "-n", name, "qdisc", "replace", "dev", device, "root", *arguments])


def _receive_on(name: str, device: str, cpu: int) -> None:
    """One CPU for all a device receives, as a network card has it for a flow.

    A veth uses the sender's: one that moves to another CPU overtakes itself,
    by more than a VPN's replay window allows.
    """
    mask = f"{1 << min(cpu, (os.cpu_count() or 1) - 1):x}"
    place = f"/sys/class/net/{device}/queues/rx-0/rps_cpus"
    run_tool(["ip", "netns", "exec", name, "sh", "-c", f"echo {mask} >{place}"])


def _connect(end: Device, port: str) -> None:
    """A link between the end and the router."""
    router_side = end.address.rpartition(".")[0] + ".2"
    run_tool(
        ["ip", "-n", ROUTER, "link", "add", port, "type", "veth"]
        + ["peer", "name", end.name, "netns", str(end.netns)]
    )
    for name, device, address, cpu in (
        (ROUTER, port, router_side, 0),
        (str(end.netns), end.name, end.address, 1),
    ):
        run_tool(["ip", "-n", name, "address", "add", f"{address}/24", "dev", device])
        run_tool(["ip", "-n", name, "link", "set", device, "up"])
        _receive_on(name, device, cpu)
    run_tool(["ip", "-n", str(end.netns), "route", "add", "default", "via", router_side])


@contextlib.contextmanager
def path(rtt_ms: int, rate_mbit: Optional[int] = None) -> Iterator[None]:
    """NEAR's and FAR's namespaces, connected over the router.

    rate_mbit: of the link of either end, as of a network card.
    """
    with netns(str(NEAR.netns)), netns(str(FAR.netns)), netns(ROUTER) as router:
        forward = "echo 1 >/proc/sys/net/ipv4/ip_forward"
        run_tool(["ip", "netns", "exec", router, "sh", "-c", forward])
        for end, port in ((NEAR_END, "near"), (FAR_END, "far")):
            _connect(end, port)
            if rtt_ms:
                _set_qdisc(router, port, delay_arguments(rtt_ms))
            if rate_mbit is not None:
                _set_qdisc(str(end.netns), end.name, link_arguments(rate_mbit))
        yield
