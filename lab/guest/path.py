# SPDX-License-Identifier: GPL-2.0-or-later
"""The path below a tunnel: two ends with a link each, and a router between.

The delay is the router's, the rate is the ends' links': what waits for its own
link counts against a sender's socket, as at a network card; what is delayed on
its way does not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from lab.guest.devices import FAR, NEAR, Device, netns, run_tool

# The addresses the tunnels connect to.
OUTSIDE = {NEAR: "10.93.1.1", FAR: "10.93.2.1"}
DELAYED_PACKETS = 20000  # that may be in flight
# More than a socket's send buffer, so that the link makes the sender wait.
LINK_BYTES = 400_000
BURST_BYTES = 16_000
# One CPU for all that a device receives, as a network card has it for a flow. A veth uses
# the sender's: one that moves to another CPU overtakes itself, by more than a VPN's
# replay window allows.
CONNECT = """
ip -n router link add {end} type veth peer name wan0 netns {end}
ip -n router address add {router}/24 dev {end}
ip -n router link set {end} up
ip -n {end} address add {address}/24 dev wan0
ip -n {end} link set wan0 up
ip -n {end} route add default via {router}
ip netns exec router sh -ec 'echo 1 >/proc/sys/net/ipv4/ip_forward
    echo 1 >/sys/class/net/{end}/queues/rx-0/rps_cpus'
ip netns exec {end} sh -c 'echo {mask} >/sys/class/net/wan0/queues/rx-0/rps_cpus'
"""
# Half of the round trip, for it is met twice.
DELAY = f"""
tc -n router qdisc replace dev {{end}} root netem delay {{us}}us limit {DELAYED_PACKETS}
"""
# netem would let go of the sender's socket, tbf does not.
RATE = f"""
tc -n {{end}} qdisc replace dev wan0 root \\
    tbf rate {{mbit}}mbit burst {BURST_BYTES} limit {LINK_BYTES}
"""


def cpu_of(end: Device) -> int:
    """That on which its packets arrive: one for each end, if there are two."""
    return min(os.cpu_count() or 1, 2) - 1 if end == FAR else 0


@contextlib.contextmanager
def path(rtt_ms: int, rate_mbit: int | None = None) -> Iterator[None]:
    """NEAR's and FAR's namespaces, connected over the router.

    rate_mbit: of the link of either end, as of a network card.
    """
    script = CONNECT + DELAY * (rtt_ms > 0) + RATE * (rate_mbit is not None)
    facts = {"us": rtt_ms * 500, "mbit": rate_mbit}
    with netns(str(NEAR.netns)), netns(str(FAR.netns)), netns("router"):
        for end, address in OUTSIDE.items():
            router = address.rpartition(".")[0] + ".2"
            places = {"end": end.netns, "address": address, "router": router}
            mask = 1 << cpu_of(end)
            run_tool(["sh", "-ec", script.format(**places, **facts, mask=mask)])
        yield
