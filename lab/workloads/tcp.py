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
from typing import Iterator, Sequence, Tuple

from lab.workloads import latency
from lab.workloads.devices import FAR, NEAR, forwarder, read_counters
from lab.workloads.devices import wait_drained
from lab.workloads.env import GuestEnv
from lab.workloads.row import Row, Sample, WorkloadError

PACES = {
    "fast": (),
    "slow": ("--burn-us", "20"),
    "link": ("--link-us", "200"),
}
READERS = {
    "fast": "fast reader",
    "slow": "slow reader",
    "link": "link, ring of 2 ms",
}
# How sluice is loaded where the ping counts: the ring lasts 2 ms.
PROMPT = ("target_us=2000",)
STREAMS = {"fast": (1, 2, 4, 8, 16), "slow": (1, 8, 16), "link": (1, 4, 8)}
DEMO = ("tcp_8_fast",)


def _row(streams: int, speed: str) -> Row:
    name = f"tcp_{streams}_{speed}"
    plural = "stream" if streams == 1 else "streams"
    return Row(
        name=name,
        title=f"TCP, {streams} {plural}, " + READERS[speed],
        unit="Mbit/s",
        demo=name in DEMO,
        floor=0.97,
        above_upstream=speed != "link",
        prompt=speed == "link",
        parameters=list(PROMPT) if speed == "link" else [],
    )


ROWS = [_row(streams, speed) for speed in PACES for streams in STREAMS[speed]]


def parse_iperf3(text: str) -> Tuple[float, int]:
    """The receiver's Mbit/s and the sender's retransmits."""
    try:
        result = json.loads(text)
    except ValueError:
        raise WorkloadError("iperf3: printed no JSON; it was cut short") from None
    if "error" in result:
        raise WorkloadError(f"iperf3: {result['error']}")
    received = result["end"]["sum_received"]
    if not received["bytes"]:
        raise WorkloadError("iperf3: the receiver got no byte")
    retransmits = result["end"]["sum_sent"].get("retransmits", 0)
    return received["bits_per_second"] / 1e6, retransmits


@contextlib.contextmanager
def server() -> Iterator[None]:
    """An iperf3 server behind FAR that listens."""
    process = subprocess.Popen(
        FAR.command("iperf3", "--server", "--forceflush"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "listening" in line:
                break
        else:
            raise WorkloadError("iperf3: the server does not listen")
        yield
    finally:
        process.kill()
        process.communicate()


def run_client(streams: int, seconds: float, *options: str) -> str:
    """From NEAR to FAR; iperf3's JSON."""
    # iperf3 counts in whole seconds.
    argv = NEAR.command(
        *("iperf3", "--client", FAR.address, "--json"),
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


def transfer(
    variant: str,
    env: GuestEnv,
    pace: Sequence[str],
    streams: int,
    seconds: float,
    *options: str,
) -> Sample:
    """iperf3 through the forwarder, with a ping beside it; Mbit/s received."""
    with forwarder(env.helper("reader"), variant, pace) as reader:
        with server(), latency.ping(NEAR, FAR) as ping:
            began = time.monotonic()
            output = run_client(streams, seconds, *options)
            took = time.monotonic() - began
            pinged = ping.end()
        after = wait_drained([NEAR, FAR])
        near = read_counters(NEAR)
        counts = reader.end()
    rate, retransmits = parse_iperf3(output)
    return Sample(
        value=rate,
        sent=after.offered,
        read=sum(count["read"] for count in counts),
        qdisc_drops=after.qdisc_drops,
        lost_at_ring=after.lost_at_ring,
        held=after.held,
        extra={
            "retransmits": retransmits,
            "sent_by_near": near.offered,
            "requeues": after.requeues,
            "pings_sent": pinged.sent,
            "pings_received": pinged.received,
            "write_errors": sum(count["write_errors"] for count in counts),
            "seconds_with_start": round(took, 3),
        },
        **pinged.fields(),
    )


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    _, streams, speed = row.name.split("_")
    return transfer(variant, env, PACES[speed], int(streams), seconds)
