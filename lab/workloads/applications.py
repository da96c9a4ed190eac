# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs people run, unmodified: what do their tunnels carry, and how soon?

Each between two network namespaces joined by a path with a round-trip time.
The tunnel's own device is named and addressed as the forwarder's are, so the
same iperf3 and the same ping measure it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product, starmap
from pathlib import Path

from lab.failure import Skipped
from lab.guest import devices
from lab.guest.devices import FAR, NEAR, Device, run_tool
from lab.guest.env import GuestEnv
from lab.guest.path import FAR_END, NEAR_END, path
from lab.guest.program import (
    Program,
    folder,
    has_device,
    program,
    read_version,
    succeeds,
)
from lab.row import Row, Sample, Workload, sample
from lab.variants import parse_variant
from lab.workloads import qemu, tcp


@dataclass(frozen=True)
class End:
    """One end of a tunnel: the program's device, and where its packets travel."""

    device: Device
    outside: Device


ENDS = End(replace(NEAR, mac=""), NEAR_END), End(replace(FAR, mac=""), FAR_END)


@dataclass(frozen=True)
class Application:
    """A process at either end of the path, and what it needs."""

    packages: tuple[str, ...]  # the first has the program
    argv: Callable[[End, End], list[str]]  # of an end, and the other one
    configure: Callable[[Program, End, End], None] | None = None  # once it runs


def ensure_certificate() -> Path:
    """A key and a self-signed certificate, the same for both ends; made once per boot."""
    base = folder("openvpn") / "end"
    if not base.with_suffix(".crt").exists():
        run_tool(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "30"),
                *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=end"),
                *("-keyout", str(base.with_suffix(".key"))),
                *("-out", str(base.with_suffix(".new"))),
            ]
        )
        base.with_suffix(".new").rename(base.with_suffix(".crt"))
    return base


def openvpn(own: End, peer: End) -> list[str]:
    """Its data in userspace."""
    base = ensure_certificate()
    listens = own.outside is FAR_END
    return [
        *("openvpn", "--dev", own.device.name, "--dev-type", "tun", "--disable-dco"),
        *("--proto", "udp4", "--port", "1194"),
        *("--local", own.outside.address, "--remote", peer.outside.address),
        *("--ca", f"{base}.crt", "--cert", f"{base}.crt", "--key", f"{base}.key"),
        *(("--tls-server", "--dh", "none") if listens else ("--tls-client",)),
    ]


def wireguard_go(own: End, peer: End) -> list[str]:
    """Its tun device takes and gives GSO packets of up to 64 kB."""
    return ["wireguard-go", "--foreground", own.device.name]


WIREGUARD_PORT = 51820


def ensure_key(end: End) -> Path:
    """A private key, made once a boot."""
    path = folder("wireguard-go") / f"{end.device.name}.key"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(run_tool(["wg", "genkey"]))
    return path


def configure_wireguard(process: Program, own: End, peer: End) -> None:
    socket = Path(f"/run/wireguard/{own.device.name}.sock")
    process.wait_until(socket.exists, "its socket")
    public = run_tool(["wg", "pubkey"], ensure_key(peer).read_text()).strip()
    port = str(WIREGUARD_PORT)
    run_tool(
        [
            *own.device.command("wg", "set", own.device.name, "listen-port", port),
            *("private-key", str(ensure_key(own)), "peer", public),
            *("endpoint", f"{peer.outside.address}:{port}"),
            *("allowed-ips", f"{peer.device.address}/32"),
        ]
    )


# By the names of their programs.
APPLICATIONS = {
    "openvpn": Application(("openvpn", "openssl"), openvpn),
    "wireguard-go": Application(
        ("wireguard-go", "wireguard-tools"), wireguard_go, configure_wireguard
    ),
}
PACKAGES = (
    *(package for app in APPLICATIONS.values() for package in app.packages),
    *qemu.PACKAGES,
)

RTTS_MS = (0, 10, 20, 40, 80, 120)
SLOW = tcp.PACES["link"]
LOADS = {
    "tcp_1": tcp.Case(1, SLOW),
    "tcp_8": tcp.Case(8, SLOW),
    "udp": tcp.Case(1, SLOW, tcp.udp_options(payload_bytes=1200)),
}
# Slower than the applications on any machine: the link makes them wait, and
# their rings fill. Without it the slower of their two ends is what is measured.
LINK_MBIT = 10
# Of OpenVPN's devices, where not its own: longer, and so much shorter than the path as
# 500 packets are at the rates of a machine that is not emulated.
OTHER_RINGS = (25, 1000)
# make apps without --rows.
USUAL = (
    "openvpn_tcp_8_20ms_10mbit",
    "openvpn_tcp_8_120ms_10mbit",
    "openvpn_tcp_1_120ms_10mbit_ring25",
    "openvpn_udp_20ms_10mbit",
    "wireguard-go_tcp_8_10ms",
    "wireguard-go_tcp_8_20ms",
)


@dataclass(frozen=True)
class Case:
    """What a row's name says."""

    application: str
    load: str
    rtt_ms: int
    rate_mbit: int | None = None
    ring: int | None = None  # of every variant; None: the application's

    @property
    def name(self) -> str:
        rate = f"_{self.rate_mbit}mbit" if self.rate_mbit else ""
        ring = f"_ring{self.ring}" if self.ring else ""
        return f"{self.application}_{self.load}_{self.rtt_ms}ms{rate}{ring}"


@contextlib.contextmanager
def tunnel(case: Case, variant: str) -> Iterator[None]:
    """The application between NEAR and FAR, connected."""
    application = APPLICATIONS[case.application]
    if parse_variant(variant).sets_flag:
        raise Skipped("IFF_BACKPRESSURE cannot be given to a program from outside")
    with contextlib.ExitStack() as stack:
        stack.enter_context(path(case.rtt_ms, case.rate_mbit))
        # The far one, which may listen, is first.
        for own, peer in (ENDS[::-1], ENDS):
            argv = application.argv(own, peer)
            process = stack.enter_context(program(own.outside, argv))
            name = f"its device {own.device.name}"
            process.wait_until(partial(has_device, own.device), name)
            if application.configure:
                application.configure(process, own, peer)
            devices.attach(own.device, peer.device, ring=case.ring)
        ping = NEAR.command("ping", "-c", "1", "-W", "0.5", FAR.address)
        process.wait_until(partial(succeeds, ping), "a ping through the tunnel")
        yield


def run(case: Case, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """Mbit/s through the tunnel, with a ping beside it."""
    with tunnel(case, variant):
        with tcp.server():
            received, pinged = tcp.load(LOADS[case.load], seconds)
        after = devices.wait_drained([NEAR, FAR])  # GSO packets never add up
    extra = {
        "version": read_version(APPLICATIONS[case.application].packages[0]),
        "retransmits": received.retransmits,
    }
    segmented = case.application == "wireguard-go"
    return sample(received.mbit, after, pinged, extra, segmented=segmented)


CASES = [
    *starmap(Case, product(APPLICATIONS, LOADS, RTTS_MS, (None, LINK_MBIT))),
    *(
        Case("openvpn", load, rtt_ms, LINK_MBIT, ring)
        for load, rtt_ms, ring in product(("tcp_1", "tcp_8"), RTTS_MS, OTHER_RINGS)
    ),
]
WORKLOADS = [
    Workload(
        Row(
            name=case.name,
            title=case.name,
            unit="Mbit/s",
            floor=0.97,
            latency_share=1 / 3,
            path_ms=case.rtt_ms,
        ),
        partial(run, case),
    )
    for case in CASES
]
