# SPDX-License-Identifier: GPL-2.0-or-later
"""tinc: two nodes that route, keys of their own."""

from __future__ import annotations

from typing import ContextManager, List, Optional

from lab.guest.devices import FAR, NEAR, Device, run_tool
from lab.guest.path import FAR_END, NEAR_END
from lab.guest.program import Program, folder, two_ends

PROGRAM = "tincd"
PACKAGES = ("tinc",)
# Else it sends by TCP for half a minute, until it knows the path's own.
MTU = 1400
SETUP_SECONDS = 60.0  # two RSA keys, in an emulated machine

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


def _write(device: Device, own: Device, peer: Device) -> None:
    """The configuration of one node, and its key; both know the same hosts."""
    place, hosts = folder("tinc") / str(own.netns), folder("tinc/hosts")
    place.mkdir(exist_ok=True)
    (place / "hosts").unlink(missing_ok=True)
    (place / "hosts").symlink_to(hosts)
    (place / "tinc.conf").write_text(
        CONFIGURATION.format(
            name=own.netns,
            interface=device.name,
            address=own.address,
            mtu=MTU,
            peer=peer.netns,
        )
    )
    (hosts / str(own.netns)).write_text(
        f"Address = {own.address}\nSubnet = {device.address}/32\n"
    )
    run_tool(["tincd", "-c", str(place), "-K"])  # adds the public key


def ensure_nodes() -> None:
    """Both nodes; made once a boot."""
    complete = folder("tinc") / "complete"
    if not complete.exists():
        _write(NEAR, NEAR_END, FAR_END)
        _write(FAR, FAR_END, NEAR_END)
        complete.touch()


def processes(preload: Optional[str]) -> ContextManager[List[Program]]:
    ensure_nodes()
    near, far = (
        ["tincd", "-D", "-c", str(place), f"--pidfile={place}/pid"]
        for place in (folder("tinc") / str(end.netns) for end in (NEAR, FAR))
    )
    return two_ends(near, far, preload)
