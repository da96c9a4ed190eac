# SPDX-License-Identifier: GPL-2.0-or-later
"""OpenVPN with its data in userspace: two peers, certificates of their own."""

from __future__ import annotations

from typing import ContextManager, List, Optional

from lab.guest.devices import FAR, NEAR, Device
from lab.guest.path import FAR_END, NEAR_END
from lab.guest.program import Program, ensure_certificate, two_ends

PROGRAM = "openvpn"
PACKAGES = ("openvpn", "openssl")


def arguments(device: Device, own: Device, peer: Device, role: List[str]) -> List[str]:
    mine = ensure_certificate(str(own.netns))
    theirs = ensure_certificate(str(peer.netns))
    return [
        *("openvpn", "--dev", device.name, "--dev-type", "tun", "--disable-dco"),
        *("--proto", "udp4", "--port", "1194"),
        *("--local", own.address, "--remote", peer.address),
        *("--ca", f"{theirs}.crt", "--cert", f"{mine}.crt", "--key", f"{mine}.key"),
        *role,
    ]


def processes(preload: Optional[str]) -> ContextManager[List[Program]]:
    server = arguments(FAR, FAR_END, NEAR_END, ["--tls-server", "--dh", "none"])
    client = arguments(NEAR, NEAR_END, FAR_END, ["--tls-client"])
    return two_ends(client, server, preload)
