# SPDX-License-Identifier: GPL-2.0-or-later
"""The path below a tunnel: two ends with a link each, and a router between.

The delay is the router's, the rate is the ends' links': what waits for its own
link counts against a sender's socket, as at a network card; what is delayed on
its way does not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from lab.guest.devices import FAR, NEAR, Device, netns, run_tool

ROUTER = "router"
# The addresses the tunnels connect to.
NEAR_END = Device("wan0", "10.93.1.1", "", netns=NEAR.netns)
FAR_END = Device("wan0", "10.93.2.1", "", netns=FAR.netns)
DELAYED_PACKETS = 20000  # that may be in flight
# More than a socket's send buffer, so that the link makes the sender wait.
LINK_BYTES = 400_000
BURST_BYTES = 16_000


def _receive_on(cpu: int, device: str) -> str:
    """One CPU for all a device receives, as a network card has it for a flow.

    A veth uses the sender's: one that moves to another CPU overtakes itself,
    by more than a VPN's replay window allows.
    """
    mask = 1 << min(cpu, (os.cpu_count() or 1) - 1)
    return f"echo {mask:x} >/sys/class/net/{device}/queues/rx-0/rps_cpus"


def _configure(namespace: str, lines: Sequence[str], script: str) -> None:
    run_tool(["ip", "-n", namespace, "-batch", "-"], "\n".join(lines) + "\n")
    run_tool(["ip", "netns", "exec", namespace, "sh", "-ec", script])


def _connect(end: Device) -> None:
    """A link between an end and the router, which passes on what comes from there."""
    name, router = str(end.netns), end.address.rpartition(".")[0] + ".2"
    lines = [
        f"link add {name} type veth peer name {end.name} netns {name}",
        f"address add {router}/24 dev {name}",
        f"link set {name} up",
    ]
    forward = "echo 1 >/proc/sys/net/ipv4/ip_forward; "
    _configure(ROUTER, lines, forward + _receive_on(0, name))
    lines = [
        f"address add {end.address}/24 dev {end.name}",
        f"link set {end.name} up",
        f"route add default via {router}",
    ]
    _configure(name, lines, _receive_on(1, end.name))


def _set_qdisc(namespace: str, device: str, qdisc: str) -> None:
    replace = ["tc", "-n", namespace, "qdisc", "replace", "dev", device, "root"]
    run_tool([*replace, *qdisc.split()])


@contextlib.contextmanager
def path(rtt_ms: int, rate_mbit: int | None = None) -> Iterator[None]:
    """NEAR's and FAR's namespaces, connected over the router.

    rate_mbit: of the link of either end, as of a network card.
    """
    with netns(str(NEAR.netns)), netns(str(FAR.netns)), netns(ROUTER):
        for end in (NEAR_END, FAR_END):
            _connect(end)
            if rtt_ms:
                # Half of the delay, for it is met twice.
                delay = f"netem delay {rtt_ms * 500}us limit {DELAYED_PACKETS}"
                _set_qdisc(ROUTER, str(end.netns), delay)
            if rate_mbit is not None:
                # netem would let go of the sender's socket, tbf does not.
                rate = f"tbf rate {rate_mbit}mbit burst {BURST_BYTES} limit {LINK_BYTES}"
                _set_qdisc(str(end.netns), end.name, rate)
        yield
