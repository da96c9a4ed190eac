# SPDX-License-Identifier: GPL-2.0-or-later
"""VPN programs people run, unmodified: a process at either end of the path, and what
each needs before that."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from lab.guest.devices import FAR, NEAR, Device, run_tool
from lab.guest.path import FAR_END, NEAR_END
from lab.guest.program import Program, ensure_certificate, folder, two_ends
from lab.guest.tun import IFF_BACKPRESSURE, IFF_NO_PI, IFF_TUN, IFF_VNET_HDR, open_queue


@dataclass(frozen=True)
class Application:
    title: str
    program: str
    packages: tuple[str, ...]  # the first has the program
    # Those at NEAR and FAR; given what upstream's preload, if it is upstream.
    processes: Callable[[str | None], AbstractContextManager[list[Program]]]


def openvpn_arguments(
    device: Device, own: Device, peer: Device, role: list[str]
) -> list[str]:
    mine = ensure_certificate(str(own.netns))
    theirs = ensure_certificate(str(peer.netns))
    return [
        *("openvpn", "--dev", device.name, "--dev-type", "tun", "--disable-dco"),
        *("--proto", "udp4", "--port", "1194"),
        *("--local", own.address, "--remote", peer.address),
        *("--ca", f"{theirs}.crt", "--cert", f"{mine}.crt", "--key", f"{mine}.key"),
        *role,
    ]


def openvpn(preload: str | None) -> AbstractContextManager[list[Program]]:
    """Its data in userspace: two peers, certificates of their own."""
    server = openvpn_arguments(FAR, FAR_END, NEAR_END, ["--tls-server", "--dh", "none"])
    client = openvpn_arguments(NEAR, NEAR_END, FAR_END, ["--tls-client"])
    return two_ends(client, server, preload)


WIREGUARD_PORT = 51820


def ensure_key(name: str) -> Path:
    """A private key, made once a boot."""
    path = folder("wireguard-go") / f"{name}.key"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(run_tool(["wg", "genkey"]))
    return path


def _configure(device: Device, own: Device, peer: Device, inside: Device) -> None:
    public = run_tool(["wg", "pubkey"], ensure_key(str(peer.netns)).read_text()).strip()
    run_tool(
        [
            *own.command("wg", "set", device.name, "listen-port", str(WIREGUARD_PORT)),
            *("private-key", str(ensure_key(str(own.netns)))),
            *("peer", public, "endpoint", f"{peer.address}:{WIREGUARD_PORT}"),
            *("allowed-ips", f"{inside.address}/32"),
        ]
    )


def _wireguard_arguments(device: Device, upstream: bool) -> list[str]:
    plain = ["wireguard-go", "--foreground", device.name]
    if not upstream:
        return plain
    # It takes an open device from its environment: run_with_device() makes one.
    return [sys.executable, "-B", "-m", "lab.workloads.vpns", *plain]


@contextlib.contextmanager
def wireguard_go(preload: str | None) -> Iterator[list[Program]]:
    """Its tun device takes and gives GSO packets of up to 64 kB."""
    upstream = preload is not None  # no C library to preload into
    near, far = (_wireguard_arguments(end, upstream) for end in (NEAR, FAR))
    with two_ends(near, far) as both:
        for process, device in zip(both, (NEAR, FAR)):
            socket = Path(f"/run/wireguard/{device.name}.sock")
            process.wait_until(socket.exists, "its socket")
        _configure(NEAR, NEAR_END, FAR_END, FAR)
        _configure(FAR, FAR_END, NEAR_END, NEAR)
        yield both


APPLICATIONS = {
    "openvpn": Application("OpenVPN", "openvpn", ("openvpn", "openssl"), openvpn),
    "wireguard-go": Application(
        "wireguard-go",
        "wireguard-go",
        ("wireguard-go", "wireguard-tools"),
        wireguard_go,
    ),
}


def run_with_device(argv: list[str]) -> None:
    """wireguard-go's own arguments; the device has IFF_BACKPRESSURE set."""
    flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR | IFF_BACKPRESSURE
    tun = open_queue(flags, argv[-1], options=0)
    os.set_inheritable(tun, True)
    os.environ["WG_TUN_FD"] = str(tun)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    run_with_device(sys.argv[1:])
