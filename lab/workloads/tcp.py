# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP, or a UDP flood, through a userspace forwarder between two taps: a VPN without
crypto.

The forwarder is as fast as it can be, or works 20 us on each packet, or has a
link behind it that takes 200 us for each: then nobody waits for a CPU, and the
ping tells how long packets wait in the ring. iperf3 floods as in the published
measurements: its sender and its receiver want as much of the CPUs as the forwarder.

What TCP carries is counted after its first second, in which windows grow until a queue
drops something.

A reader on a tick reads 500 packets at most each time, or until the ring is empty; one
that pauses reads as fast as it can for 700 ms of each second.

SHAPING asks whether the queueing discipline of a tun device takes effect: without
backpressure the ring in front of the link is the queue, and whatever the discipline
would do, it has nothing to do it with.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lab.failure import WorkloadError
from lab.guest import devices, latency
from lab.guest.devices import FAR, NEAR, Counters, Reader
from lab.guest.env import GuestEnv
from lab.processes import running
from lab.row import Row, Sample, Workload, sample
from lab.variants import parse_variant


@dataclass(frozen=True)
class Pace:
    """A kind of forwarder, and what is measured with it."""

    title: str
    options: Sequence[str]  # of the reader
    streams: Sequence[int] = ()
    demands: Mapping[str, Any] = field(default_factory=dict)  # fields of Row
    qdisc: str = "fq_codel"
    ecn: bool = False  # NEAR asks for it, FAR then agrees
    block: str = "128K"  # of iperf3, whose receiver counts whole ones of each stream

    @property
    def tcp_options(self) -> tuple[str, ...]:
        """iperf3's, of TCP: what it carries in its first second is not counted."""
        return ("--omit", str(START_SECONDS), "--length", self.block)


SLOW = ("--burn-us", "20")
BLOCK = "16K"  # of some 100 Mbit/s
SMALL_BLOCK = "4K"  # 128 KB of 8 streams are a fifth of what 10 Mbit/s carry in 4 s
ABOVE = {"above_upstream": True}
NO_DEMANDS: Mapping[str, Any] = {}
# With pfifo and ECN CoDel drops nothing: they tell what its drops cost.
PACES = {
    "fast": Pace("fast reader", (), (1, 2, 4, 8, 16), ABOVE),
    "slow": Pace("slow reader", SLOW, (1, 8, 16), ABOVE, block=BLOCK),
    "link": Pace(
        "link", ("--link-us", "200"), (1, 4, 8), {"prompt": True}, block=SMALL_BLOCK
    ),
    "fast_pfifo": Pace("fast reader, pfifo", (), (8,), qdisc="pfifo"),
    "slow_pfifo": Pace("slow reader, pfifo", SLOW, (8,), qdisc="pfifo", block=BLOCK),
    "slow_ecn": Pace("slow reader, ecn", SLOW, (8,), ecn=True, block=BLOCK),
}
# Readers that are away for a time. The last is away for longer than a stop may last:
# senders pass, and the ring overflows.
AWAY = {
    name: Pace(
        name.replace("_", " "), options, streams, {"lossless": lossless}, block=BLOCK
    )
    for name, options, streams, lossless in (
        ("tick_1ms", ("--tick-us", "1000"), (), True),
        ("tick_5ms", ("--tick-us", "5000"), (), True),
        ("tick_10ms", ("--tick-us", "10000"), (8,), True),
        ("tick_20ms", ("--tick-us", "20000"), (), True),
        ("tick_50ms", ("--tick-us", "50000"), (8,), True),
        ("pause_300ms", ("--pause-us", "300000"), (8,), False),
    )
}
ASK_FOR_ECN = "echo 1 >/proc/sys/net/ipv4/tcp_ecn"
UDP_PAYLOAD_BYTES = 1400
SETTLE_TRIES = 20
START_SECONDS = 1  # of TCP, not counted
LOW_DELAY = 0x10  # the type of service that prio's first band takes


def udp_options(payload_bytes: int) -> list[str]:
    """iperf3's, of a flood."""
    return ["--udp", "--bitrate", "0", "--length", str(payload_bytes)]


@dataclass(frozen=True)
class Case:
    """What iperf3 sends through the forwarder."""

    streams: int
    pace: Pace
    options: Sequence[str] = ()  # iperf3's, of UDP
    tos: int = 0  # of the pings
    ping_seconds: float = latency.INTERVAL_SECONDS  # between them


FLOOD = Case(1, PACES["slow"], udp_options(UDP_PAYLOAD_BYTES))
LINK_FLOOD = replace(FLOOD, pace=PACES["link"])


@dataclass(frozen=True)
class Received:
    mbit: float  # per second
    retransmits: int  # of the sender
    jain: float  # fairness between the streams: 1 / streams ... 1


def jain(shares: Sequence[float]) -> float:
    """Jain's index: the square of the sum over n times the sum of the squares."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def _received(end: dict[str, Any]) -> dict[str, float]:
    """What the receiver counted; of UDP, iperf3 3.9 tells what it missed."""
    if "sum_received" in end:
        return dict(end["sum_received"])
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
        if not any("listening" in line for line in process.stdout):
            raise WorkloadError("iperf3: the server does not listen")
        yield


def load(
    streams: int, seconds: float, *options: str, **pings: Any
) -> tuple[Received, latency.Latency]:
    """What iperf3 carries from NEAR to FAR, and the ping beside it; pings: how."""
    with latency.ping(NEAR, FAR, **pings) as ping:
        return run_client(streams, seconds, *options), ping.end()


def run_client(streams: int, seconds: float, *options: str) -> Received:
    # iperf3 counts in whole seconds.
    argv = NEAR.command(
        *("iperf3", "--client", FAR.address, "--json"),
        *("--time", str(max(1, round(seconds))), "--parallel", str(streams)),
        *options,
    )
    # If it fails, its JSON tells why.
    return parse_iperf3(devices.run_tool(argv, seconds=seconds + 30, check=False))


@contextlib.contextmanager
def forwarding(pace: Pace, variant: str, env: GuestEnv) -> Iterator[Reader]:
    """A forwarder of this pace between NEAR and FAR, and a server behind FAR."""
    options, ring = pace.options, parse_variant(variant).ring
    helper = env.reader(options)
    with devices.forwarder(helper, variant, options, pace.qdisc, ring) as reader:
        if pace.ecn:
            devices.run_tool(NEAR.command("sh", "-c", ASK_FOR_ECN))
        with server():
            yield reader


def settle(reader: Reader) -> Counters:
    """The devices' counts at a moment in which no packet came: a connection that closes
    sends its last ones late. The reader is paused, and its counts are of that moment."""
    ends = [NEAR, FAR]
    for _ in range(SETTLE_TRIES):
        after = devices.wait_drained(ends)
        reader.pause()
        if devices.read_all_counters(ends).offered == after.offered:
            break
        reader.resume()
    return after


def transfer(case: Case, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """iperf3 through the forwarder, with a ping beside it; Mbit/s received."""
    options = case.options or case.pace.tcp_options
    pings: dict[str, Any] = {"tos": case.tos, "interval": case.ping_seconds}
    with forwarding(case.pace, variant, env) as reader:
        received, pinged = load(case.streams, seconds, *options, **pings)
        after = settle(reader)
        qdiscs = json.loads(devices.show(NEAR, "tc", "qdisc") or "[]")
    extra = {
        "retransmits": received.retransmits,
        **({"jain": received.jain} if case.streams > 1 else {}),
        "ecn_marks": sum(qdisc.get("ecn_mark", 0) for qdisc in qdiscs),
        "write_errors": sum(count["write_errors"] for count in reader.counts),
    }
    return sample(received.mbit, after, extra, pinged, read=reader.read)


def _read_rate(seconds: float) -> float:
    """Packets per second that are read from NEAR, once its reader has had a second."""
    time.sleep(START_SECONDS)
    began, before = time.monotonic(), devices.read_counters(NEAR).read
    time.sleep(seconds)
    read = devices.read_counters(NEAR).read - before
    return read / (time.monotonic() - began)


def flood(pace: Pace, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """The packets that the reader took, per second. What arrives behind it tells less:
    a burst of 500 packets does not fit into the buffer of the socket that gets them."""
    with forwarding(pace, variant, env) as reader, ThreadPoolExecutor() as pool:
        rate = pool.submit(_read_rate, seconds)
        _, pinged = load(1, seconds + 2 * START_SECONDS, *FLOOD.options)
        after = settle(reader)
    return sample(rate.result(), after, {}, pinged, read=reader.read)


def workload(name: str, title: str, case: Case, **demands: Any) -> Workload:
    """demands: further fields of Row."""
    demands = {"floor": 0.97, **demands}
    return Workload(Row(name, title, "Mbit/s", **demands), partial(transfer, case))


def tcp_workload(name: str, streams: int, pace: Pace, **demands: Any) -> Workload:
    title = f"TCP, {streams} stream{'s' * (streams > 1)}, {pace.title}"
    return workload(name, title, Case(streams, pace), **{**pace.demands, **demands})


def tcp_workloads(
    prefix: str, paces: Mapping[str, Pace], special: Mapping[str, Any] = NO_DEMANDS
) -> list[Workload]:
    """Of each pace all its numbers of streams; special: demands of single rows."""
    names = [
        (f"{prefix}tcp_{streams}_{speed}", streams, pace)
        for speed, pace in paces.items()
        for streams in pace.streams
    ]
    return [tcp_workload(*one, **special.get(one[0], {})) for one in names]


def away_workloads(prefix: str, paces: Mapping[str, Pace]) -> list[Workload]:
    """Of each pace a flood, and TCP with its numbers of streams."""
    floods = [
        Workload(
            Row(
                f"{prefix}udp_{name}",
                f"UDP flood, {pace.title}",
                "packets/s",
                floor=0.97,
                **pace.demands,
            ),
            partial(flood, pace),
        )
        for name, pace in paces.items()
    ]
    return floods + tcp_workloads(prefix, paces)


TCP = tcp_workloads("", PACES)
UDP = [
    workload(
        "udp_flood",
        "UDP flood, slow reader, received",
        FLOOD,
        floor=1.0,
        reaches_upstream=True,
    ),
    workload("udp_link", "UDP flood, link", LINK_FLOOD, prompt=True),
]
SHAPING = [
    workload(
        "shaping_prio",
        "UDP flood, ping in prio's first band",
        replace(LINK_FLOOD, pace=replace(PACES["link"], qdisc="prio"), tos=LOW_DELAY),
        prompt=True,
    ),
    tcp_workload("shaping_cake", 4, replace(PACES["link"], title="cake", qdisc="cake")),
]
