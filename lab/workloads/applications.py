# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs people run, unmodified: what do their tunnels carry, and how soon?

Each between two network namespaces joined by a path with a round-trip time.
The tunnel's own device is named and addressed as the forwarder's are, so the
same iperf3 and the same ping measure it. Each end has one CPU, as a machine of its own:
else the rate depends on which of the programs share one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product, starmap

from lab.failure import Skipped
from lab.guest import devices
from lab.guest.devices import FAR, NEAR, Device, run_tool
from lab.guest.env import GuestEnv
from lab.guest.path import OUTSIDE, cpu_of, path
from lab.guest.program import folder, has_device, program, read_version, succeeds
from lab.row import Sample, sample, workload
from lab.variants import parse_variant
from lab.workloads import qemu, tcp


@dataclass(frozen=True)
class Application:
    """A process at either end of the path, and scripts it needs; see _words()."""

    packages: tuple[str, ...]  # the first has the program
    command: str
    prepare: str  # in its folder; what it makes lasts one boot
    configure: str = ""  # tried until it succeeds, once the device is there


# By the names of their programs.
APPLICATIONS = {
    "openvpn": Application(  # its data in userspace; both ends have the same key
        packages=("openvpn", "openssl"),
        prepare="""
            test -e end.crt && exit
            openssl req -x509 -newkey ec -nodes -days 30 \
                -pkeyopt ec_paramgen_curve:prime256v1 -subj /CN=end \
                -keyout end.key -out end.new
            mv end.new end.crt
        """,
        command="""
            openvpn --dev {device} --dev-type tun --disable-dco --proto udp4 --port 1194
            --local {outside} --remote {peer_outside} {role}
            --ca {folder}/end.crt --cert {folder}/end.crt --key {folder}/end.key
        """,
    ),
    # Its tun device takes and gives GSO packets of up to 64 kB.
    "wireguard-go": Application(
        packages=("wireguard-go", "wireguard-tools"),
        prepare="""
            umask 077
            for end in near0 far0; do test -s $end || wg genkey >$end; done
        """,
        command="wireguard-go --foreground {device}",
        configure="""
            test -S /run/wireguard/{device}.sock
            wg set {device} listen-port 51820 private-key {folder}/{device} \
                peer $(wg pubkey <{folder}/{peer}) endpoint {peer_outside}:51820 \
                allowed-ips {peer_address}/32
        """,
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
# make apps without --rows.
USUAL = (
    "openvpn_tcp_1_20ms",
    "openvpn_tcp_8_20ms",
    "openvpn_tcp_8_120ms",
    "openvpn_tcp_8_20ms_10mbit",
    "openvpn_udp_20ms",
    "wireguard-go_tcp_1_20ms",
    "wireguard-go_tcp_8_20ms",
    "wireguard-go_tcp_8_120ms",
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
        return f"{self.application}_{self.load}_{self.rtt_ms}ms{rate}"


def _words(application: str, own: Device, peer: Device) -> dict[str, str]:
    """What the scripts of an end name."""
    return {
        "folder": str(folder(application)),
        "device": own.name,
        "outside": OUTSIDE[own],
        "role": "--tls-server --dh none" if own == FAR else "--tls-client",
        "peer": peer.name,
        "peer_address": peer.address,
        "peer_outside": OUTSIDE[peer],
    }


@contextlib.contextmanager
def _on_cpu_of(end: Device) -> Iterator[None]:
    """What is started meanwhile stays there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu_of(end)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def tunnel(case: Case, variant: str) -> Iterator[None]:
    """The application between NEAR and FAR, connected."""
    application = APPLICATIONS[case.application]
    if parse_variant(variant).sets_flag:
        raise Skipped("IFF_BACKPRESSURE cannot be given to a program from outside")
    prepare = f"cd {folder(case.application)}\n{application.prepare}"
    run_tool(["sh", "-ec", prepare])
    with contextlib.ExitStack() as stack:
        stack.enter_context(path(case.rtt_ms, case.rate_mbit))
        for own, peer in ((FAR, NEAR), (NEAR, FAR)):  # the one that listens is first
            words = _words(case.application, own, peer)
            argv = application.command.format(**words).split()
            with _on_cpu_of(own):
                process = stack.enter_context(program(own, argv))
            process.wait_until(partial(has_device, own), f"its device {own.name}")
            configure = application.configure.format(**words)
            configured = partial(succeeds, own.command("sh", "-ec", configure))
            process.wait_until(configured, "its configuration")
            devices.attach(replace(own, mac=""), peer, ring=case.ring)
        ping = NEAR.command("ping", "-c", "1", "-W", "0.5", FAR.address)
        process.wait_until(partial(succeeds, ping), "a ping through the tunnel")
        yield


def run(case: Case, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """Mbit/s through the tunnel, with a ping beside it."""
    with tunnel(case, variant):
        with contextlib.ExitStack() as stack:
            with _on_cpu_of(FAR):
                stack.enter_context(tcp.server())
            with _on_cpu_of(NEAR):
                received, pinged = tcp.load(LOADS[case.load], seconds)
        after = devices.wait_drained([NEAR, FAR])  # GSO packets never add up
    extra = {
        "version": read_version(APPLICATIONS[case.application].packages[0]),
        "retransmits": received.retransmits,
    }
    segmented = case.application == "wireguard-go"
    return sample(received.mbit, after, pinged, extra, segmented=segmented)


CASES = list(starmap(Case, product(APPLICATIONS, LOADS, RTTS_MS, (None, LINK_MBIT))))
DEMANDS = {"floor": 0.97, "latency_share": 1 / 3}
WORKLOADS = [
    workload(c.name, c.name, "Mbit/s", partial(run, c), path_ms=c.rtt_ms, **DEMANDS)
    for c in CASES
]
