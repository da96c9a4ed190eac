# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP, or a UDP flood, through a userspace forwarder between two taps: a VPN without
crypto.

The forwarder is as fast as it can be, or works 20 us on each packet, or has a
link behind it that takes 200 us for each: then nobody waits for a CPU, and the
ping tells how long packets wait in the ring. iperf3 floods as in the published
measurements: its sender and its receiver want as much of the CPUs as the forwarder.

SHAPING asks whether the queueing discipline of a tun device takes effect: without
backpressure the ring in front of the link is the queue, and whatever the discipline
would do, it has nothing to do it with.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from lab.guest import latency
from lab.guest.devices import FAR, NEAR, Device, forwarder, read_counters
from lab.guest.devices import parse_ecn_marks, run_tool, running, show, wait_drained
from lab.guest.env import GuestEnv
from lab.guest.sample import sample
from lab.row import Row, Sample, Workload, WorkloadError, parse_variant

PACES = {
    "fast": (),
    "slow": ("--burn-us", "20"),
    "link": ("--link-us", "200"),
}
READERS = {
    "fast": "fast reader",
    "slow": "slow reader",
    "link": "link",
}
STREAMS = {"fast": (1, 2, 4, 8, 16), "slow": (1, 8, 16), "link": (1, 4, 8)}
ASK_FOR_ECN = "echo 1 >/proc/sys/net/ipv4/tcp_ecn"
UDP_PAYLOAD_BYTES = 1400
LOW_DELAY = 0x10  # the type of service that prio's first band takes


def flood(payload_bytes: int) -> List[str]:
    """iperf3's arguments."""
    return ["--udp", "--bitrate", "0", "--length", str(payload_bytes)]


@dataclass(frozen=True)
class Case:
    """What iperf3 sends through the forwarder, and how that forwards."""

    streams: int
    pace: Sequence[str]  # the reader's options
    options: Sequence[str] = ()  # iperf3's
    qdisc: str = "fq_codel"
    tos: int = 0  # of the pings
    ecn: bool = False  # NEAR asks for it, FAR then agrees


FLOOD = Case(1, PACES["slow"], flood(UDP_PAYLOAD_BYTES))
LINK_FLOOD = replace(FLOOD, pace=PACES["link"])
LINK = Case(4, PACES["link"])


@dataclass(frozen=True)
class Received:
    mbit: float  # per second
    retransmits: int  # of the sender
    jain: float  # fairness between the streams: 1 / streams ... 1


def jain(shares: Sequence[float]) -> float:
    """Jain's index: the square of the sum over n times the sum of the squares."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def _received(end: Dict[str, Any]) -> Dict[str, float]:
    """What the receiver counted; of UDP, iperf3 3.9 tells what it missed."""
    if "sum_received" in end:
        return end["sum_received"]
    sent = end["sum"]
    share = 1 - sent["lost_packets"] / max(sent["packets"], 1)
    return {name: sent[name] * share for name in ("bytes", "bits_per_second")}


def parse_iperf3(text: str) -> Received:
    try:
        result = json.loads(text)
    except ValueError:
        raise WorkloadError("iperf3: printed no JSON; it was cut short") from None
    if "error" in result:
        raise WorkloadError(f"iperf3: {result['error']}")
    received = _received(result["end"])
    if not received["bytes"]:
        sent = result["end"].get("sum_sent", {}).get("bytes", 0)
        raise WorkloadError(f"iperf3: the receiver got no byte, of {sent} sent")
    streams = [
        stream.get("receiver", stream.get("udp", {})).get("bytes", 0)
        for stream in result["end"]["streams"]
    ]
    return Received(
        mbit=received["bits_per_second"] / 1e6,
        retransmits=result["end"].get("sum_sent", {}).get("retransmits", 0),
        jain=jain(streams),
    )


@contextlib.contextmanager
def server() -> Iterator[None]:
    """An iperf3 server behind FAR that listens.

    It reports no intervals: nobody reads them, and a full pipe would stop it.
    """
    argv = FAR.command("iperf3", "--server", "--forceflush", "--interval", "0")
    with running(argv, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "listening" in line:
                break
        else:
            raise WorkloadError("iperf3: the server does not listen")
        yield


def run_client(
    streams: int, seconds: float, *options: str, near: Device = NEAR, far: Device = FAR
) -> str:
    """From near to far; iperf3's JSON."""
    # iperf3 counts in whole seconds.
    argv = near.command(
        *("iperf3", "--client", far.address, "--json"),
        *("--time", str(max(1, round(seconds))), "--parallel", str(streams)),
        *options,
    )
    try:
        done = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds + 30,
            universal_newlines=True,
        )
    except subprocess.TimeoutExpired:
        raise WorkloadError(
            f"iperf3: not done {seconds + 30:.0f} s after its start; "
            "is a queue stopped for ever?"
        ) from None
    return done.stdout


def _load(case: Case, seconds: float) -> Tuple[Received, float, latency.Latency]:
    """What iperf3 received, the seconds with its start, and the ping beside it."""
    with server(), latency.ping(NEAR, FAR, case.tos) as ping:
        began = time.monotonic()
        output = run_client(case.streams, seconds, *case.options)
        took = time.monotonic() - began
        return parse_iperf3(output), took, ping.end()


def transfer(case: Case, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """iperf3 through the forwarder, with a ping beside it; Mbit/s received."""
    ring, helper = parse_variant(variant).ring, env.reader(case.pace)
    with forwarder(helper, variant, case.pace, case.qdisc, ring) as reader:
        if case.ecn:
            run_tool(NEAR.command("sh", "-c", ASK_FOR_ECN))
        received, took, pinged = _load(case, seconds)
        after = wait_drained([NEAR, FAR])
        near = read_counters(NEAR)
        marks = parse_ecn_marks(show(NEAR, "tc", "qdisc"))
        counts = reader.end()
    extra = {
        "retransmits": received.retransmits,
        **({"jain": received.jain} if case.streams > 1 else {}),
        "ecn_marks": marks,
        "sent_by_near": near.offered,
        "write_errors": sum(count["write_errors"] for count in counts),
        "seconds_with_start": round(took, 3),
    }
    read = sum(count["read"] for count in counts)
    return sample(received.mbit, after, extra, pinged, read=read)


def workload(name: str, title: str, case: Case, **demands: Any) -> Workload:
    """demands: further fields of Row."""
    demands = {"floor": 0.97, **demands}
    return Workload(Row(name, title, "Mbit/s", **demands), partial(transfer, case))


def tcp_workload(name: str, reader: str, case: Case, **demands: Any) -> Workload:
    streams = f"{case.streams} stream{'s' * (case.streams > 1)}"
    return workload(name, f"TCP, {streams}, {reader}", case, **demands)


def _by_speed(streams: int, speed: str) -> Workload:
    name, case = f"tcp_{streams}_{speed}", Case(streams, PACES[speed])
    return tcp_workload(
        *(name, READERS[speed], case),
        demo=name == "tcp_8_fast",
        above_upstream=speed != "link",
        prompt=speed == "link",
    )


# pfifo and ECN, with which CoDel drops nothing, tell what its drops cost.
TCP = [
    *(_by_speed(n, speed) for speed, streams in STREAMS.items() for n in streams),
    *(
        tcp_workload(
            *(f"tcp_8_{speed}_pfifo", f"{READERS[speed]}, pfifo"),
            Case(8, PACES[speed], qdisc="pfifo"),
        )
        for speed in ("fast", "slow")
    ),
    tcp_workload("tcp_8_slow_ecn", "slow reader, ecn", Case(8, PACES["slow"], ecn=True)),
]
UDP = [
    workload(
        *("udp_flood", "UDP flood, slow reader, received", FLOOD),
        demo=True,
        floor=1.3,
        reaches_upstream=True,
    ),
    workload("udp_link", "UDP flood, link", LINK_FLOOD, demo=True, prompt=True),
]
SHAPING = [
    workload(
        *("shaping_prio", "UDP flood, ping in prio's first band"),
        replace(LINK_FLOOD, qdisc="prio", tos=LOW_DELAY),
        prompt=True,
    ),
    *(
        tcp_workload(f"shaping_{name}", reader, replace(LINK, **change), prompt=prompt)
        for name, reader, change, prompt in (
            ("cake", "cake", {"qdisc": "cake"}, True),
            ("fq", "fq", {"qdisc": "fq"}, True),
            ("ecn", "ECN", {"ecn": True}, True),
            # At half the link's rate nobody has a queue but cake.
            ("half", "cake 30 Mbit/s", {"qdisc": "cake bandwidth 30mbit"}, False),
        )
    ),
]
