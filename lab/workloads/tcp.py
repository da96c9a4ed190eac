# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP, or a UDP flood, through a forwarder between two taps: a VPN without crypto.

The forwarder is as fast as it can be, or works 5 or 20 us on each packet, or has a
link behind it that takes 200 us for each: then nobody waits for a CPU, and the
ping tells how long packets wait in the ring. One on a tick reads 500 packets at most
each time, or until the ring is empty; one that pauses reads as fast as it can for 700 ms
of each second. It is a process, or the lab's own module (kernel_reader/) reads in its
place: no system call for a packet, as with vhost-net.

iperf3 floods as in the published measurements: its sender and its receiver want as much
of the CPUs as the forwarder. What TCP carries is counted after its first second, in
which windows grow until a queue drops something.
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
from typing import Any, NamedTuple

from lab import row
from lab.failure import WorkloadError
from lab.guest import devices, latency
from lab.guest.devices import FAR, NEAR, Counters, Reader
from lab.guest.env import GuestEnv
from lab.processes import running
from lab.row import Sample, Workload, sample
from lab.variants import parse_variant

BLOCK = "16K"  # of some 100 Mbit/s
SMALL_BLOCK = "4K"  # 128 KB of 8 streams are a fifth of what 10 Mbit/s carry in 4 s
UDP_PAYLOAD_BYTES = 1400
SETTLE_TRIES = 20
START_SECONDS = 1  # of TCP, not counted


@dataclass(frozen=True)
class Pace:
    """A kind of forwarder."""

    title: str
    options: tuple[str, ...] = ()  # of the reader
    block: str = "128K"  # of iperf3, whose receiver counts whole ones of each stream


PACES = {
    "fast": Pace("no work"),
    "5us": Pace("5 us", ("--burn-us", "5")),
    "slow": Pace("20 us", ("--burn-us", "20"), BLOCK),
    "link": Pace("link", ("--link-us", "200"), SMALL_BLOCK),
    # Readers that are away for a time. The last is away for longer than a stop may
    # last: senders pass, and the ring overflows.
    **{
        f"tick_{ms}ms": Pace(f"tick of {ms} ms", ("--tick-us", f"{ms}000"), BLOCK)
        for ms in (1, 5, 10, 20, 50)
    },
    "pause_300ms": Pace("pause of 300 ms", ("--pause-us", "300000"), BLOCK),
}
IN_KERNEL = {
    name: Pace(f"{pace.title}, in kernel", ("--in-kernel", *pace.options), pace.block)
    for name, pace in PACES.items()
}


def udp_options(payload_bytes: int, rate: str = "0") -> tuple[str, ...]:
    """iperf3's, of a flood."""
    return ("--udp", "--bitrate", rate, "--length", str(payload_bytes))


@dataclass(frozen=True)
class Case:
    """What iperf3 sends through the forwarder."""

    streams: int
    pace: Pace
    udp: tuple[str, ...] = ()  # iperf3's options of a flood; without: TCP
    pings: Mapping[str, Any] = field(default_factory=dict)  # as latency.ping() has them

    @property
    def options(self) -> tuple[str, ...]:
        return self.udp or ("--omit", str(START_SECONDS), "--length", self.pace.block)


FLOOD = Case(1, PACES["slow"], udp_options(UDP_PAYLOAD_BYTES))


class Received(NamedTuple):
    mbit: float  # per second
    retransmits: int  # of the sender


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
    received, sent = _received(result["end"]), result["end"].get("sum_sent", {})
    if not received["bytes"]:
        bytes_sent = sent.get("bytes", 0)
        raise WorkloadError(f"iperf3: the receiver got no byte, of {bytes_sent} sent")
    return Received(received["bits_per_second"] / 1e6, sent.get("retransmits", 0))


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


def load(case: Case, seconds: float) -> tuple[Received, latency.Latency]:
    """What iperf3 carries from NEAR to FAR, and the ping beside it."""
    # iperf3 counts in whole seconds.
    argv = NEAR.command(
        *("iperf3", "--client", FAR.address, "--json"),
        *("--time", str(max(1, round(seconds))), "--parallel", str(case.streams)),
        *case.options,
    )
    with latency.ping(NEAR, FAR, **case.pings) as end_ping:
        # If it fails, its JSON tells why.
        text = devices.run_tool(argv, seconds=seconds + 30, check=False)
        return parse_iperf3(text), end_ping()


@contextlib.contextmanager
def forwarding(pace: Pace, variant: str, env: GuestEnv) -> Iterator[Reader]:
    """A forwarder of this pace between NEAR and FAR, and a server behind FAR."""
    helper, ring = env.reader(pace.options), parse_variant(variant).ring
    with devices.forwarder(helper, variant, pace.options, ring) as reader, server():
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
    with forwarding(case.pace, variant, env) as reader:
        received, pinged = load(case, seconds)
        after = settle(reader)
    extra = {"retransmits": received.retransmits}
    return sample(received.mbit, after, pinged, extra, read=reader.read)


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
        _, pinged = load(FLOOD, seconds + 2 * START_SECONDS)
        after = settle(reader)
    return sample(rate.result(), after, pinged, read=reader.read)


def workload(name: str, title: str, case: Case, **demands: Any) -> Workload:
    """demands: further fields of Row."""
    demands = {"floor": 0.97, **demands}
    return row.workload(name, title, "Mbit/s", partial(transfer, case), **demands)


def tcp_rows(
    place: str, speed: str, streams: Sequence[int], **demands: Any
) -> list[Workload]:
    """A row for each number of streams; place: "" or "kernel_", where the reader is."""
    pace = (IN_KERNEL if place else PACES)[speed]
    return [
        workload(
            f"{place}tcp_{number}_{speed}",
            f"TCP, {number} stream{'s' * (number > 1)}, {pace.title}",
            Case(number, pace),
            **demands,
        )
        for number in streams
    ]


def away_rows(place: str) -> list[Workload]:
    """A flood to each reader that is away for a time, and 8 TCP streams to some."""
    floods, streams = [], []
    for speed, pace in (IN_KERNEL if place else PACES).items():
        if not speed.endswith("ms"):
            continue
        lossless = speed != "pause_300ms"
        floods.append(
            row.workload(
                f"{place}udp_{speed}",
                f"UDP flood, {pace.title}",
                "packets/s",
                partial(flood, pace),
                floor=0.97,
                lossless=lossless,
            )
        )
        if speed in ("tick_10ms", "tick_50ms", "pause_300ms"):
            streams += tcp_rows(place, speed, (8,), lossless=lossless)
    return floods + streams


STREAMS = (1, 2, 4, 8, 16)
LOSSLESS: dict[str, Any] = {"lossless_ring": 8000}  # of stock
TCP = [
    *tcp_rows("", "fast", STREAMS, above_upstream=True),
    *tcp_rows("", "slow", (1, 8, 16), above_upstream=True),
    *tcp_rows("", "link", (1, 4, 8), prompt=True),
]
UDP = [
    workload(
        "udp_flood",
        "UDP flood, 20 us, received",
        FLOOD,
        floor=1.0,
        reaches_upstream=True,
    ),
    workload(
        "udp_link", "UDP flood, link", replace(FLOOD, pace=PACES["link"]), prompt=True
    ),
]
TO_KERNEL = [
    *tcp_rows("kernel_", "fast", (1, 2, 4), **LOSSLESS),
    *tcp_rows("kernel_", "fast", (8, 16), **LOSSLESS, above_upstream=True),
    *tcp_rows("kernel_", "5us", (1, 8)),
    *tcp_rows("kernel_", "slow", STREAMS, prompt=True),
    *tcp_rows("kernel_", "link", STREAMS, prompt=True),
    *away_rows("kernel_"),
    workload(
        "kernel_udp_slow",
        "UDP flood, 20 us, in kernel",
        replace(FLOOD, pace=IN_KERNEL["slow"]),
        reaches_upstream=True,
    ),
]
AWAY = away_rows("")
