# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP through a userspace forwarder between two taps: a VPN without crypto.

The forwarder is as fast as it can be, or works 20 us on each packet, or has a
link behind it that takes 200 us for each: then nobody waits for a CPU, and the
ping tells how long packets wait in the ring.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterator, Mapping, Sequence, Tuple

from lab.guest import latency
from lab.guest.devices import FAR, NEAR, Device, forwarder, read_counters
from lab.guest.devices import read_ecn_marks, run_tool, running, wait_drained
from lab.guest.env import GuestEnv
from lab.row import Row, Sample, WorkloadError, parse_variant

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


@dataclass(frozen=True)
class Case:
    """What iperf3 sends through the forwarder, and how that forwards."""

    streams: int
    pace: Sequence[str]  # the reader's options
    options: Sequence[str] = ()  # iperf3's
    qdisc: str = "fq_codel"
    tos: int = 0  # of the pings
    ecn: bool = False  # NEAR asks for it, FAR then agrees


def row_of(name: str, streams: int, reader: str, **demands: Any) -> Row:
    """demands: further fields of Row."""
    plural = "stream" if streams == 1 else "streams"
    title = f"TCP, {streams} {plural}, {reader}"
    return Row(name, title, "Mbit/s", floor=0.97, **demands)


def cases_of(
    prefix: str, paces: Mapping[str, Sequence[str]], streams: Mapping[str, Sequence[int]]
) -> Dict[str, Case]:
    """One for each pace and number of streams, by the name of its row."""
    return {
        f"{prefix}_{count}_{speed}": Case(count, pace)
        for speed, pace in paces.items()
        for count in streams[speed]
    }


CASES: Dict[str, Case] = {
    **cases_of("tcp", PACES, STREAMS),
    **{
        f"tcp_8_{speed}_pfifo": Case(8, PACES[speed], qdisc="pfifo")
        for speed in ("fast", "slow")
    },
    "tcp_8_slow_ecn": Case(8, PACES["slow"], ecn=True),
}


def _row(name: str, case: Case) -> Row:
    """pfifo and ECN, with which CoDel drops nothing, tell what its drops cost."""
    _, _, speed, *change = name.split("_")
    if change:
        return row_of(name, case.streams, f"{READERS[speed]}, {change[0]}")
    return row_of(
        *(name, case.streams, READERS[speed]),
        demo=name == "tcp_8_fast",
        above_upstream=speed != "link",
        prompt=speed == "link",
    )


ROWS = [_row(name, case) for name, case in CASES.items()]


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
    ring, helper = parse_variant(variant).ring, env.helper("reader")
    with forwarder(helper, variant, case.pace, case.qdisc, ring) as reader:
        if case.ecn:
            run_tool(NEAR.command("sh", "-c", ASK_FOR_ECN))
        received, took, pinged = _load(case, seconds)
        after = wait_drained([NEAR, FAR])
        near = read_counters(NEAR)
        marks = read_ecn_marks(NEAR)
        counts = reader.end()
    return Sample(
        value=received.mbit,
        sent=after.offered,
        read=sum(count["read"] for count in counts),
        **after.unread(),
        extra={
            "retransmits": received.retransmits,
            **({"jain": received.jain} if case.streams > 1 else {}),
            "ecn_marks": marks,
            "sent_by_near": near.offered,
            "requeues": after.requeues,
            **pinged.counts(),
            "write_errors": sum(count["write_errors"] for count in counts),
            "seconds_with_start": round(took, 3),
        },
        **pinged.fields(),
    )


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    return transfer(CASES[row.name], variant, seconds, env)
