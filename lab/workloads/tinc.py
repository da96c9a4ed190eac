# SPDX-License-Identifier: GPL-2.0-or-later
"""tinc: two nodes that route, keys of their own."""

from __future__ import annotations

from pathlib import Path
from typing import ContextManager, Dict, List, Optional

from lab.guest.devices import FAR, NEAR, Device, run_tool
from lab.guest.path import FAR_END, NEAR_END
from lab.guest.program import Program, folder, two_ends

PROGRAM = "tincd"
PACKAGES = ("tinc",)
# Else it sends by TCP for half a minute, until it knows the path's own.
MTU = 1400

CONFIGURATION = """\
Name = {name}
Mode = router
DeviceType = tun
Interface = {interface}
AddressFamily = ipv4
BindToAddress = {address}
PMTU = {mtu}
PMTUDiscovery = no
ConnectTo = {peer}
"""


def _write(device: Device, own: Device, peer: Device) -> Path:
    """The configuration of one node, and its key."""
    place = folder("tinc") / str(own.netns)
    (place / "hosts").mkdir(parents=True, exist_ok=True)
    (place / "tinc.conf").write_text(
        CONFIGURATION.format(
            name=own.netns,
            interface=device.name,
            address=own.address,
            mtu=MTU,
            peer=peer.netns,
        )
    )
    (place / "hosts" / str(own.netns)).write_text(
        f"Address = {own.address}\nSubnet = {device.address}/32\n"
    )
    run_tool(["tincd", "-c", str(place), "-K"])  # adds the public key
    return place


def ensure_nodes() -> Dict[str, Path]:
    """Both nodes, each with the other's public key; made once a boot."""
    places = {str(d.netns): folder("tinc") / str(d.netns) for d in (NEAR, FAR)}
    complete = folder("tinc") / "complete"
    if not complete.exists():
        near = _write(NEAR, NEAR_END, FAR_END)
        far = _write(FAR, FAR_END, NEAR_END)
        for mine, theirs in ((near, far), (far, near)):
            public = (theirs / "hosts" / theirs.name).read_text()
            (mine / "hosts" / theirs.name).write_text(public)
        complete.touch()
    return places


def processes(preload: Optional[str]) -> ContextManager[List[Program]]:
    places = ensure_nodes()

    def argv(end: Device) -> List[str]:
        place = places[str(end.netns)]
        return ["tincd", "-D", "-c", str(place), f"--pidfile={place}/pid"]

    return two_ends(argv(NEAR_END), argv(FAR_END), preload)
