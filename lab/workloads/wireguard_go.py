# SPDX-License-Identifier: GPL-2.0-or-later
"""wireguard-go, whose tun device takes and gives GSO packets of up to 64 kB."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Iterator, List, Optional

from lab.guest.devices import FAR, NEAR, Device, run_tool
from lab.guest.path import FAR_END, NEAR_END
from lab.guest.program import Program, folder, two_ends
from lab.guest.tun import IFF_BACKPRESSURE, IFF_NO_PI, IFF_TUN, IFF_VNET_HDR
from lab.guest.tun import open_queue

PROGRAM = "wireguard-go"
PACKAGES = ("wireguard-go", "wireguard-tools")
PORT = 51820


def ensure_key(name: str) -> Path:
    """A private key, made once a boot."""
    path = folder("wireguard-go") / f"{name}.key"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(run_tool(["wg", "genkey"]))
    return path


def configure(device: Device, own: Device, peer: Device, inside: Device) -> None:
    public = run_tool(["wg", "pubkey"], ensure_key(str(peer.netns)).read_text()).strip()
    run_tool(
        own.command("wg", "set", device.name, "listen-port", str(PORT))
        + ["private-key", str(ensure_key(str(own.netns)))]
        + ["peer", public, "endpoint", f"{peer.address}:{PORT}"]
        + ["allowed-ips", f"{inside.address}/32"]
    )


def arguments(device: Device, upstream: bool) -> List[str]:
    plain = ["wireguard-go", "--foreground", device.name]
    if not upstream:
        return plain
    # It takes an open device from its environment: __main__ below makes one.
    return [sys.executable, "-B", "-m", "lab.workloads.wireguard_go", *plain]


@contextlib.contextmanager
def processes(preload: Optional[str]) -> Iterator[List[Program]]:
    upstream = preload is not None  # no C library to preload into
    with two_ends(arguments(NEAR, upstream), arguments(FAR, upstream)) as both:
        for process, device in zip(both, (NEAR, FAR)):
            socket = Path(f"/run/wireguard/{device.name}.sock")
            process.wait_until(socket.exists, "its socket")
        configure(NEAR, NEAR_END, FAR_END, FAR)
        configure(FAR, FAR_END, NEAR_END, NEAR)
        yield both


def main() -> None:
    """wireguard-go's own arguments; the device has IFF_BACKPRESSURE set."""
    argv = sys.argv[1:]
    flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR | IFF_BACKPRESSURE
    tun = open_queue(flags, argv[-1], options=0)
    os.set_inheritable(tun, True)
    os.environ["WG_TUN_FD"] = str(tun)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
