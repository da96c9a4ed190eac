# SPDX-License-Identifier: GPL-2.0-or-later
"""Senders in the kernel: how much of what pktgen sends does a reader get?

pktgen's default mode calls the driver directly, around the qdisc; it respects
a stopped queue but spins on it. queue_xmit goes through the qdisc.
"""

from __future__ import annotations

import contextlib
import operator
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lab.failure import WorkloadError
from lab.guest import devices, latency, tasks
from lab.guest.devices import HERE, THERE, Counters
from lab.guest.env import GuestEnv
from lab.row import Row, Sample, Workload, sample
from lab.variants import parse_variant

PROC = Path("/proc/net/pktgen")
PACKET_BYTES = 60
START_SECONDS = 5.0
END_SECONDS = 10.0


@dataclass(frozen=True)
class Case:
    senders: int
    direct: bool = True
    vhost: bool = False
    qdisc: str = "fq_codel"
    options: Sequence[str] = ()  # of the reader


@dataclass(frozen=True)
class Sent:
    """What one pktgen sender did."""

    seconds: float  # from start to end
    busy_seconds: float  # without the waits for the last packet to be read
    packets: int  # accepted by the driver or the qdisc
    errors: int  # refused: dropped, and counted where it was

    @property
    def attempts(self) -> int:
        return self.packets + self.errors


def parse_pktgen(text: str) -> Sent:
    """The result in /proc/net/pktgen/DEVICE@THREAD."""
    result = re.search(r"Result: OK: (\d+)\(c(\d+)\+d\d+\) usec, (\d+) \(", text)
    errors = re.search(r"errors: (\d+)\s*$", text.strip())
    if result is None or errors is None:
        raise WorkloadError("pktgen: gave no result; it did not run")
    total, busy, packets = map(int, result.groups())
    return Sent(total / 1e6, busy / 1e6, packets, int(errors[1]))


def write_control(name: str, *lines: str) -> None:
    for line in lines:
        try:
            (PROC / name).write_text(line + "\n")
        except OSError as error:
            raise WorkloadError(f"pktgen: {name}: {line!r}: {error}") from error


@contextlib.contextmanager
def senders(count: int, direct: bool = True, packets: int = 0) -> Iterator[list[str]]:
    """`count` configured senders, from the last CPU downwards."""
    devices.run_tool(["modprobe", "pktgen"])
    cpus = os.cpu_count() or 1
    names = []
    try:
        for index in range(count):
            thread = (cpus - 1 - index) % cpus
            name = f"{HERE.name}@{index}"
            write_control(f"kpktgend_{thread}", f"add_device {name}")
            names.append(name)
            write_control(
                name,
                "xmit_mode " + ("start_xmit" if direct else "queue_xmit"),
                f"count {packets}",
                f"pkt_size {PACKET_BYTES}",
                f"dst {THERE.address}",
                f"dst_mac {THERE.mac}",
                f"udp_src_min {9 + index}",
                f"udp_src_max {9 + index}",
            )
        yield names
    finally:
        write_control("pgctrl", "stop", "reset")


def _read_status(names: Sequence[str]) -> list[str]:
    """Of each sender "Starting" once it has begun, and its figures when it has ended."""
    return [(PROC / name).read_text().rpartition("Result: ")[2] for name in names]


def start(names: Sequence[str]) -> None:
    """Starts all senders, and waits until each has begun: the first may have ended.

    The write of "start" blocks until they have ended: it has its own thread.
    """
    before = _read_status(names)
    threading.Thread(target=write_control, args=("pgctrl", "start"), daemon=True).start()
    # It takes more than 100 ms.
    what = f"pktgen: {', '.join(names)}: started (see dmesg)"
    devices.wait_until(
        lambda: all(map(operator.ne, before, _read_status(names))), what, START_SECONDS
    )


def read_sent_so_far(names: Sequence[str]) -> list[int]:
    """While they run."""
    texts = [(PROC / name).read_text() for name in names]
    return [int(re.findall(r"pkts-sofar: (\d+)", text)[0]) for text in texts]


def read_results(names: Sequence[str]) -> list[Sent] | None:
    """None while one of them has none, or a part of it: pktgen may be writing it."""
    try:
        return [parse_pktgen((PROC / name).read_text()) for name in names]
    except WorkloadError:
        return None


def wait_ended(names: Sequence[str], seconds: float = END_SECONDS) -> list[Sent]:
    """Waits for the results: the write of "start" may return before them.

    seconds: so long all of them may be without a packet more.
    """
    sent: list[int] = []
    deadline = time.monotonic() + seconds
    while (results := read_results(names)) is None:
        before, sent = sent, read_sent_so_far(names)
        if sent != before:
            deadline = time.monotonic() + seconds
        elif time.monotonic() > deadline:
            raise WorkloadError(
                f"pktgen: {', '.join(names)}: stays at {sent} packets for "
                f"{seconds:.0f} s; is the reader alive?"
            )
        time.sleep(0.005)
    return results


def count_refused(results: Sequence[Sent], pings: int, after: Counters) -> int:
    """Packets that never reached the qdisc, which 7.3 counts nowhere.

    There a sender may find too many packets waiting for the qdisc's
    lock; __dev_xmit_skb() then frees its packet and returns NET_XMIT_DROP.
    pktgen sees an error for each of them, and for some that the qdisc dropped.
    """
    attempts = sum(result.attempts for result in results)
    errors = sum(result.errors for result in results)
    return max(0, min(errors, attempts + pings - after.offered))


def receive(case: Case, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """What the reader gets, packets/s, with a ping beside it."""
    # ping does not count what is dropped on its way out: where there is no queue.
    asks = case.qdisc != "noqueue"
    pings: AbstractContextManager[latency.Ping | None] = (
        latency.ping(HERE, THERE) if asks else contextlib.nullcontext()
    )
    with devices.sink(
        env.reader(case.options),
        variant,
        parse_variant(variant).ring,
        vhost=case.vhost,
        qdisc=case.qdisc,
        options=case.options,
    ) as reader:
        readers = tasks.read_tasks(reader.pid, case.vhost)
        with senders(case.senders, case.direct) as names, pings as ping:
            start(names)
            switches = tasks.read_switches(readers)
            time.sleep(seconds)
            switches = tasks.read_switches(readers) - switches
            pinged = ping.end() if ping else latency.NOT_ASKED
            write_control("pgctrl", "stop")
            results = wait_ended(names)
        attempts = sum(result.attempts for result in results)
        after = devices.wait_drained([HERE], direct=attempts if case.direct else 0)
        stops = devices.read_stops(HERE)
        reader.end()
    refused = 0 if case.direct else count_refused(results, pinged.sent, after)
    extra = {
        "senders": [result.packets for result in results],
        "errors": sum(result.errors for result in results),
        "refused": refused,
        "stops": stops,
        "reader_switches": switches / seconds,
    }
    rate = reader.read / max(result.seconds for result in results)
    sent = attempts + pinged.sent - refused
    return sample(rate, after, extra, pinged, sent=sent, read=reader.read)


def workload(name: str, title: str, case: Case, **demands: Any) -> Workload:
    """demands: further fields of Row, or other ones."""
    equal = case.direct and case.qdisc != "noqueue"
    demands = {"floor": 1.0 if equal else 0.97, **demands}
    lossless = case.qdisc != "noqueue"
    row = Row(name, title, "packets/s", lossless=lossless, **demands)
    return Workload(row, partial(receive, case))


def _direct(
    names: str, reader: str, counts: Sequence[int], **settings: Any
) -> list[Workload]:
    """A row for each number of direct senders, of which names has the place."""
    return [
        workload(
            names.format(n),
            f"pktgen, {n} direct sender{'s' * (n > 1)}{reader}",
            Case(n, **settings),
        )
        for n in counts
    ]


NO_QUEUE = {"qdisc": "noqueue"}
WORKLOADS = [
    *_direct("pktgen_{}", "", (1, 2, 4)),
    workload("pktgen_queue_xmit", "pktgen through the qdisc", Case(1, direct=False)),
    *_direct("vhost_{}", ", vhost-net", (1, 2, 4), vhost=True),
    *_direct("pktgen_{}_noqueue", ", noqueue", (1, 4), **NO_QUEUE),
    *_direct("vhost_{}_noqueue", ", vhost-net, noqueue", (1, 4), vhost=True, **NO_QUEUE),
]
