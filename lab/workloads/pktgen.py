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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lab import row
from lab.failure import WorkloadError
from lab.guest import devices, latency
from lab.guest.devices import HERE, THERE
from lab.guest.env import GuestEnv
from lab.guest.latency import NOT_ASKED, Latency
from lab.row import Sample, Workload, sample
from lab.variants import parse_variant

PROC = Path("/proc/net/pktgen")
PACKET_BYTES = 60
START_SECONDS = 5.0
END_SECONDS = 10.0
NO_QUEUE = "noqueue"


@dataclass(frozen=True)
class Case:
    senders: int = 1
    direct: bool = True
    vhost: bool = False
    qdisc: str = "fq_codel"
    options: tuple[str, ...] = ()  # of the reader


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


def wait_ended(names: Sequence[str], seconds: float = END_SECONDS) -> list[Sent]:
    """Waits for the results: the write of "start" may return before them.

    seconds: so long all of them may be without a packet more.
    """
    sent: list[int] = []
    deadline = time.monotonic() + seconds
    while True:
        # One of them may have none yet, or a part of it: pktgen may be writing it.
        with contextlib.suppress(WorkloadError):
            return [parse_pktgen((PROC / name).read_text()) for name in names]
        before, sent = sent, read_sent_so_far(names)
        if sent != before:
            deadline = time.monotonic() + seconds
        elif time.monotonic() > deadline:
            raise WorkloadError(
                f"pktgen: {', '.join(names)}: stays at {sent} packets for "
                f"{seconds:.0f} s; is the reader alive?"
            )
        time.sleep(0.005)


def receive(case: Case, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """What the reader gets, packets/s, with a ping beside it."""
    ping: AbstractContextManager[Callable[[], Latency]] = latency.ping(HERE, THERE)
    if case.qdisc == NO_QUEUE:  # ping does not count what is dropped on its way out
        ping = contextlib.nullcontext(lambda: NOT_ASKED)
    with devices.sink(
        env.reader(case.options),
        variant,
        parse_variant(variant).ring,
        vhost=case.vhost,
        qdisc=case.qdisc,
        options=case.options,
    ) as reader:
        with senders(case.senders, case.direct) as names, ping as end_ping:
            start(names)
            time.sleep(seconds)
            pinged = end_ping()
            write_control("pgctrl", "stop")
            results = wait_ended(names)
        attempts = sum(result.attempts for result in results)
        after = devices.wait_drained([HERE], direct=attempts if case.direct else 0)
        reader.end()
    rate = reader.read / max(result.seconds for result in results)
    sent = attempts + pinged.sent
    if not case.direct:
        # Packets that never reached the qdisc, which 7.3 counts nowhere. There a sender
        # may find too many packets waiting for the qdisc's lock; __dev_xmit_skb() then
        # frees its packet and returns NET_XMIT_DROP. pktgen sees an error for each of
        # them, and for some that the qdisc dropped.
        errors = sum(result.errors for result in results)
        sent -= max(0, min(errors, sent - after.offered))
    return sample(rate, after, pinged, sent=sent, read=reader.read)


def workload(name: str, title: str, case: Case, **demands: Any) -> Workload:
    """demands: further fields of Row, or other ones."""
    lossless = case.qdisc != NO_QUEUE
    demands = {"unit": "packets/s", "floor": 0.97, "lossless": lossless, **demands}
    return row.workload(name, title, measure=partial(receive, case), **demands)


def direct_rows(
    name: str, reader: str, counts: Sequence[int], case: Case, **demands: Any
) -> list[Workload]:
    """A row for each number of direct senders, of which the name has the place."""
    return [
        workload(
            name.format(n),
            f"pktgen, {n} direct sender{'s' * (n > 1)}{reader}",
            replace(case, senders=n),
            **demands,
        )
        for n in counts
    ]


IN_KERNEL = ("--in-kernel",)
LOSSLESS = {"lossless_ring": 8000}  # of stock
WORKLOADS = [
    *direct_rows("pktgen_{}", "", (1, 2, 4), Case(), floor=1.0),
    workload("pktgen_queue_xmit", "pktgen through the qdisc", Case(direct=False)),
    *direct_rows("vhost_{}", ", vhost-net", (1, 2, 4), Case(vhost=True), floor=1.0),
    *direct_rows("pktgen_{}_noqueue", ", noqueue", (1, 4), Case(qdisc=NO_QUEUE)),
    *direct_rows(
        "vhost_{}_noqueue",
        ", vhost-net, noqueue",
        (1, 4),
        Case(vhost=True, qdisc=NO_QUEUE),
    ),
]
TO_KERNEL = [
    *direct_rows(
        "kernel_pktgen_{}", ", in kernel", (1, 2), Case(options=IN_KERNEL), **LOSSLESS
    ),
    *direct_rows("kernel_pktgen_{}", ", in kernel", (4,), Case(options=IN_KERNEL)),
    workload(
        "kernel_pktgen_qdisc",
        "pktgen, qdisc, in kernel",
        Case(direct=False, options=IN_KERNEL),
    ),
    workload(
        "kernel_pktgen_noqueue",
        "pktgen, noqueue, in kernel",
        Case(qdisc=NO_QUEUE, options=IN_KERNEL),
    ),
]
