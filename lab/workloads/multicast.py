# SPDX-License-Identifier: GPL-2.0-or-later
"""A fixed amount of data to several IPv6 groups at once: when is all of it there?

The transfer that never ended with the queue of upstream's first attempt stopped.
Several threads send through an OpenVPN tunnel, each to a group of its own, ask
what is missing and send that again: what a ring loses costs time. OpenVPN between
two peers carries every packet; the other programs need a configuration for each group.
"""

from __future__ import annotations

import json
from functools import partial
from typing import List, Optional

from lab.guest import latency
from lab.guest.devices import FAR, NEAR, Device, run_tool
from lab.guest.env import GuestEnv
from lab.guest.program import read_ring, read_version, receiving
from lab.guest.sample import sample
from lab.row import Row, Sample, Workload
from lab.workloads.applications import Case, LINK_MBIT, tunnel, wait_settled
from lab.workloads.openvpn import PACKAGES

GROUPS, PACKETS = 4, 600  # threads, and packets of 1000 bytes for each
RTT_MS = 20
DEADLINE_SECONDS = 60.0  # of the helper
GROUPS_NET = "ff15::9200:0/112"
ADDRESSES = {NEAR.name: "fd91::1", FAR.name: "fd91::2"}


def _enable_ipv6(device: Device) -> None:
    switch = f"echo 0 >/proc/sys/net/ipv6/conf/{device.name}/disable_ipv6"
    run_tool(device.command("sh", "-c", switch))
    lines = [
        f"address replace {ADDRESSES[device.name]}/64 dev {device.name} nodad",
        f"route replace multicast {GROUPS_NET} dev {device.name} table local",
    ]
    batch = ["ip", "-6", "-n", str(device.netns), "-batch", "-"]
    run_tool(batch, "\n".join(lines) + "\n")


def _command(env: GuestEnv, what: str, device: Device) -> List[str]:
    words = (env.helper("multicast"), what, device.name, str(GROUPS), str(PACKETS))
    return device.command(*words)


def run(
    rate_mbit: Optional[int], variant: str, seconds: float, env: GuestEnv
) -> Sample:
    """It lasts as long as it takes, whatever the seconds."""
    with tunnel(Case("openvpn", "multicast", RTT_MS, rate_mbit), variant, env):
        for device in (NEAR, FAR):
            _enable_ipv6(device)
        receiver = receiving(_command(env, "receive", FAR))
        with receiver, latency.ping(NEAR, FAR) as ping:
            sender = _command(env, "send", NEAR)
            told = json.loads(run_tool(sender, seconds=2 * DEADLINE_SECONDS))
            pinged = ping.end()
        after = wait_settled()
        ring = read_ring(NEAR)
    extra = {
        "version": read_version(PACKAGES[0]),
        "txqueuelen": ring,
        "seconds_until_all": told["seconds"],
        "packets_sent": told["sent"],
        "questions": told["asked"],
    }
    return sample(GROUPS * PACKETS / told["seconds"], after, extra, pinged)


def _workload(name: str, told: str, rate_mbit: Optional[int]) -> Workload:
    """rate_mbit: of the ends' links."""
    row = Row(
        name=name,
        title=f"OpenVPN multicast, {told}",
        unit="packets/s",
        demo=rate_mbit is not None,
        floor=0.97,
        path_ms=RTT_MS,
    )
    return Workload(row, partial(run, rate_mbit))


WORKLOADS = [
    _workload("multicast_20ms", "20 ms", None),
    _workload("multicast_20ms_10mbit", "20 ms 10 Mbit/s", LINK_MBIT),
]
