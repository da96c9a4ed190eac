# SPDX-License-Identifier: GPL-2.0-or-later
"""The path below a tunnel: two ends, and a router with a delay and a rate.

The delay is the router's, not the ends': a packet delayed in its sender's own
namespace counts against the sender's socket, which no real path does.
"""

from __future__ import annotations

import contextlib
from typing import Iterator, List, Optional

from lab.workloads.devices import FAR, NEAR, Device, netns, run_tool

ROUTER = "router"
# The addresses the tunnels connect to.
NEAR_END = Device("wan0", "10.93.1.1", "", netns=NEAR.netns)
FAR_END = Device("wan0", "10.93.2.1", "", netns=FAR.netns)
PACKET_BYTES = 1500
BUFFER_MS = 100  # what the router holds at its rate
DELAYED_PACKETS = 20000  # under way, where no rate is set


def netem_arguments(rtt_ms: int, rate_mbit: Optional[int]) -> List[str]:
    """netem's arguments for one direction; none where it has nothing to do."""
    if not rtt_ms and rate_mbit is None:
        return []
    limit = DELAYED_PACKETS
    arguments = ["delay", f"{rtt_ms * 500}us"]
    if rate_mbit is not None:
        held_ms = rtt_ms / 2 + BUFFER_MS
        limit = round(rate_mbit * 1000 * held_ms / 8 / PACKET_BYTES)
        arguments += ["rate", f"{rate_mbit}mbit"]
    return [*arguments, "limit", str(limit)]


def _connect(end: Device, port: str, netem: List[str]) -> None:
    """A link from the end to the router, which delays what it sends there."""
    router_side = end.address.rpartition(".")[0] + ".2"
    run_tool(
        ["ip", "-n", ROUTER, "link", "add", port, "type", "veth"]
        + ["peer", "name", end.name, "netns", str(end.netns)]
    )
    for name, device, address in (
        (ROUTER, port, router_side),
        (str(end.netns), end.name, end.address),
    ):
        run_tool(["ip", "-n", name, "address", "add", f"{address}/24", "dev", device])
        run_tool(["ip", "-n", name, "link", "set", device, "up"])
    run_tool(["ip", "-n", str(end.netns), "route", "add", "default", "via", router_side])
    if netem:
        run_tool(
            ["tc", "-n", ROUTER, "qdisc", "replace", "dev", port, "root", "netem"]
            + netem
        )


@contextlib.contextmanager
def path(rtt_ms: int, rate_mbit: Optional[int] = None) -> Iterator[None]:
    """NEAR's and FAR's namespaces, connected over the router."""
    netem = netem_arguments(rtt_ms, rate_mbit)
    if netem:
        run_tool(["modprobe", "sch_netem"])
    with netns(str(NEAR.netns)), netns(str(FAR.netns)), netns(ROUTER) as router:
        forward = "echo 1 >/proc/sys/net/ipv4/ip_forward"
        run_tool(["ip", "netns", "exec", router, "sh", "-c", forward])
        _connect(NEAR_END, "near", netem)
        _connect(FAR_END, "far", netem)
        yield
