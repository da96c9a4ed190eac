# SPDX-License-Identifier: GPL-2.0-or-later
"""VPN programs people run, unmodified: a process at either end of the path, and what
each needs before that."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from lab.guest.devices import FAR, NEAR, Device, run_tool
from lab.guest.path import FAR_END, NEAR_END
from lab.guest.program import Program, ensure_certificate, folder, program, two_ends
from lab.guest.tun import IFF_BACKPRESSURE, IFF_NO_PI, IFF_TUN, IFF_VNET_HDR, open_queue


@dataclass(frozen=True)
class Application:
    title: str
    program: str
    packages: tuple[str, ...]  # the first has the program
    # Those at NEAR and FAR; given what upstream's preload, if it is upstream.
    processes: Callable[[str | None], AbstractContextManager[list[Program]]]
    mtu: int | None = None  # of its devices, if not the default
    setup_seconds: float = 0.0


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


# Else it sends by TCP for half a minute, until it knows the path's own.
TINC_MTU = 1400
TINC_CONFIGURATION = f"""\
Mode = router
DeviceType = tun
AddressFamily = ipv4
PMTU = {TINC_MTU}
PMTUDiscovery = no
"""


def _write_node(device: Device, own: Device, peer: Device) -> None:
    """The configuration of one node, and its key; both know the same hosts."""
    place, hosts = folder("tinc") / str(own.netns), folder("tinc/hosts")
    place.mkdir(exist_ok=True)
    (place / "hosts").unlink(missing_ok=True)
    (place / "hosts").symlink_to(hosts)
    (place / "tinc.conf").write_text(
        f"Name = {own.netns}\nInterface = {device.name}\nBindToAddress = {own.address}\n"
        f"ConnectTo = {peer.netns}\n{TINC_CONFIGURATION}"
    )
    (hosts / str(own.netns)).write_text(
        f"Address = {own.address}\nSubnet = {device.address}/32\n"
    )
    run_tool(["tincd", "-c", str(place), "-K"])  # adds the public key


def _ensure_nodes() -> None:
    """Both nodes; made once a boot."""
    complete = folder("tinc") / "complete"
    if not complete.exists():
        _write_node(NEAR, NEAR_END, FAR_END)
        _write_node(FAR, FAR_END, NEAR_END)
        complete.touch()


def tinc(preload: str | None) -> AbstractContextManager[list[Program]]:
    """Two nodes that route, keys of their own."""
    _ensure_nodes()
    near, far = (
        ["tincd", "-D", "-c", str(place), f"--pidfile={place}/pid"]
        for place in (folder("tinc") / str(end.netns) for end in (NEAR, FAR))
    )
    return two_ends(near, far, preload)


OCSERV_USER = "sluice"
# The network it gives addresses from; the lab does not use them.
OCSERV_CONFIGURATION = """\
auth = "plain[passwd={place}/passwords]"
tcp-port = 443
udp-port = 443
listen-host = {address}
run-as-user = nobody
run-as-group = nogroup
socket-file = {place}/socket
pid-file = {place}/pid
server-cert = {certificate}.crt
server-key = {certificate}.key
isolate-workers = false
device = {device}
ipv4-network = 10.94.0.0/24
dpd = 90
"""


def _ensure_ocserv() -> Path:
    """The server's configuration, its certificate and its one user."""
    place = folder("ocserv")
    password = place / "password"
    if not password.exists():
        place.chmod(0o755)
        (place / "ocserv.conf").write_text(
            OCSERV_CONFIGURATION.format(
                place=place,
                address=FAR_END.address,
                certificate=ensure_certificate(str(FAR.netns)),
                device=FAR.name.rstrip("0"),
            )
        )
        secret = os.urandom(8).hex()
        run_tool(
            ["ocpasswd", "--passwd", str(place / "passwords"), OCSERV_USER],
            f"{secret}\n{secret}\n",
        )
        password.write_text(secret + "\n")
    return place


def _read_pin() -> str:
    """The hash of the server's public key, as --servercert takes it."""
    certificate = f"{ensure_certificate(str(FAR.netns))}.crt"
    key = run_tool(["openssl", "x509", "-in", certificate, "-noout", "-pubkey"])
    hashed = hashlib.sha256(base64.b64decode("".join(key.splitlines()[1:-1])))
    return f"pin-sha256:{base64.b64encode(hashed.digest()).decode()}"


@contextlib.contextmanager
def openconnect(preload: str | None) -> Iterator[list[Program]]:
    """Its data in DTLS to its server ocserv. It reads its device through vhost-net where
    it can."""
    place = _ensure_ocserv()
    (place / "pid").unlink(missing_ok=True)
    run_tool(["modprobe", "vhost_net"])
    listen = ["ocserv", "--foreground", "--config", str(place / "ocserv.conf")]
    connect = [
        *("openconnect", "--protocol=anyconnect", f"--interface={NEAR.name}"),
        *("--script=/bin/true", "--non-inter", f"--user={OCSERV_USER}"),
        *("--passwd-on-stdin", f"--servercert={_read_pin()}"),
        f"https://{FAR_END.address}",
    ]
    with program(FAR_END, listen, preload) as server:
        server.wait_until(lambda: (place / "pid").exists(), "its pid file")
        secret = str(place / "password")
        with program(NEAR_END, connect, preload, stdin=secret) as client:
            yield [client, server]


APPLICATIONS = {
    "openvpn": Application("OpenVPN", "openvpn", ("openvpn", "openssl"), openvpn),
    "wireguard-go": Application(
        "wireguard-go",
        "wireguard-go",
        ("wireguard-go", "wireguard-tools"),
        wireguard_go,
    ),
    # Two RSA keys, in an emulated machine.
    "tinc": Application("tinc", "tincd", ("tinc",), tinc, TINC_MTU, setup_seconds=60.0),
    "openconnect": Application(
        "OpenConnect", "openconnect", ("openconnect", "ocserv"), openconnect
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
