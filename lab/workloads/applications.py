# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs people run, unmodified: what do their tunnels carry, and how soon?

Each between two network namespaces joined by a path with a round-trip time.
The tunnel's own device is named and addressed as the forwarder's are, so the
same iperf3 and the same ping measure it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product, starmap
from pathlib import Path

from lab.failure import Skipped
from lab.guest import devices
from lab.guest.devices import DRAIN_SECONDS, FAR, NEAR, Counters, Device, run_tool
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
class Application:
    """A process at either end of the path, and what it needs before that."""

    title: str
    packages: tuple[str, ...]  # the first has the program
    processes: Callable[[], AbstractContextManager[list[Program]]]  # at NEAR and FAR


def ensure_certificate(name: str) -> Path:
    """A key and a self-signed certificate; made once per boot."""
    base = folder("certificates") / name
    if not base.with_suffix(".crt").exists():
        run_tool(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "30"),
                *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", f"/CN={name}"),
                *("-keyout", str(base.with_suffix(".key"))),
                *("-out", str(base.with_suffix(".new"))),
            ]
        )
        base.with_suffix(".new").rename(base.with_suffix(".crt"))
    return base


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


@contextlib.contextmanager
def two_ends(near: Sequence[str], far: Sequence[str]) -> Iterator[list[Program]]:
    """The process at either end of the path; the far one, which may listen, is first."""
    with program(FAR_END, far) as server, program(NEAR_END, near) as client:
        yield [client, server]


def openvpn() -> AbstractContextManager[list[Program]]:
    """Its data in userspace: two peers, certificates of their own."""
    server = openvpn_arguments(FAR, FAR_END, NEAR_END, ["--tls-server", "--dh", "none"])
    client = openvpn_arguments(NEAR, NEAR_END, FAR_END, ["--tls-client"])
    return two_ends(client, server)


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


@contextlib.contextmanager
def wireguard_go() -> Iterator[list[Program]]:
    """Its tun device takes and gives GSO packets of up to 64 kB."""
    near, far = (["wireguard-go", "--foreground", end.name] for end in (NEAR, FAR))
    with two_ends(near, far) as both:
        for process, device in zip(both, (NEAR, FAR)):
            socket = Path(f"/run/wireguard/{device.name}.sock")
            process.wait_until(socket.exists, "its socket")
        _configure(NEAR, NEAR_END, FAR_END, FAR)
        _configure(FAR, FAR_END, NEAR_END, NEAR)
        yield both


# By the names of their programs.
APPLICATIONS = {
    "openvpn": Application("OpenVPN", ("openvpn", "openssl"), openvpn),
    "wireguard-go": Application(
        "wireguard-go", ("wireguard-go", "wireguard-tools"), wireguard_go
    ),
}

PACKAGES = (
    *(package for app in APPLICATIONS.values() for package in app.packages),
    *qemu.PACKAGES,
)

RTTS_MS = (0, 10, 20, 40, 80, 120)
SLOW = tcp.PACES["link"]
LOADS = {
    "tcp_1": ("1 TCP", tcp.Case(1, SLOW)),
    "tcp_8": ("8 TCP", tcp.Case(8, SLOW)),
    "udp": ("UDP flood", tcp.Case(1, SLOW, tcp.udp_options(payload_bytes=1200))),
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

    @property
    def title(self) -> str:
        name = APPLICATIONS[self.application].title
        rate = f" {self.rate_mbit} Mbit/s" if self.rate_mbit else ""
        ring = f", ring of {self.ring}" if self.ring else ""
        return f"{name} {LOADS[self.load][0]}, {self.rtt_ms} ms{rate}{ring}"


@contextlib.contextmanager
def tunnel(case: Case, variant: str) -> Iterator[None]:
    """The application between NEAR and FAR, connected."""
    wanted, application = parse_variant(variant), APPLICATIONS[case.application]
    if wanted.sets_flag:
        raise Skipped("IFF_BACKPRESSURE cannot be given to a program from outside")
    ring = case.ring if wanted.ring is None else wanted.ring
    near, far = replace(NEAR, mac=""), replace(FAR, mac="")
    with path(case.rtt_ms, case.rate_mbit), application.processes() as processes:
        near_end, far_end = processes
        for process, device in ((near_end, near), (far_end, far)):
            process.wait_until(lambda: has_device(device), f"its device {device.name}")
        for device, peer in ((near, far), (far, near)):
            devices.attach(device, peer, ring=ring)
        ping = near.command("ping", "-c", "1", "-W", "0.5", far.address)

        def answers() -> bool:
            far_end.check()
            return succeeds(ping)

        near_end.wait_until(answers, "a ping through the tunnel")
        yield


def wait_settled() -> Counters:
    """Until nothing is held and nothing moves, or a deadline."""
    deadline = time.monotonic() + DRAIN_SECONDS
    before, now = None, devices.read_all_counters([NEAR, FAR])
    while (now != before or now.held) and time.monotonic() < deadline:
        time.sleep(0.2)
        before, now = now, devices.read_all_counters([NEAR, FAR])
    return now


def run(case: Case, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """Mbit/s through the tunnel, with a ping beside it."""
    with tunnel(case, variant):
        with tcp.server():
            received, pinged = tcp.load(LOADS[case.load][1], seconds)
        after = wait_settled()
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
            title=case.title,
            unit="Mbit/s",
            floor=0.97,
            latency_share=1 / 3,
            path_ms=case.rtt_ms,
            rings=[50, 10000] if case.name == "openvpn_udp_20ms_10mbit" else [],
        ),
        partial(run, case),
    )
    for case in CASES
]
