# SPDX-License-Identifier: GPL-2.0-or-later
"""What the hook costs while the ring never fills.

Bursts of 40 % of the ring go to a reader that is paused, so that only the
transmit path is timed; the reader then empties the ring. The ring is ten times
the default, because each start of pktgen takes more than 200 ms and a burst of
400 packets is over in one. The value is the fastest burst's: what the path
costs when the host took no CPU away. sluice's target is switched off: with it a ring of
ten times the default is full after 2 ms of the reader's time, and these rows would stop
the queue.

Even so these rows differ by 5 % from boot to boot. What is demanded of the hook's price
is asked of COST, where the VM counts instructions: one takes one nanosecond of its time,
on its only CPU. The same round of two boots differs by less than 1 in 1000.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from lab.failure import Skipped, WorkloadError
from lab.guest import devices, tasks
from lab.guest.devices import DRAIN_SECONDS, HERE, THERE, Reader, crowd
from lab.guest.env import GuestEnv
from lab.guest.program import SO_SNDBUFFORCE, read_sent
from lab.processes import running
from lab.row import WHOLE_RING, Sample, sample, workload
from lab.workloads import pktgen

RING = 10000
BURST = 4000
MIN_BURSTS = 7
COST_BURSTS = 9  # one or two of them pay for work that loading the module leaves
CROWD = 1000
CALLBACK = "direct_call=0"  # ftrace calls the hook as it calls those of others
# Fewer are not possible for a packet that passes the driver.
LEAST_INSTRUCTIONS = 1000
PAYLOAD_BYTES = 18  # of a socket's packet: the smallest Ethernet frame, 60 bytes


def busy_time_told(release: str, cpus: int) -> AbstractContextManager[None]:
    """pktgen tells how long it was busy; Skipped where it cannot.

    When it waits for its last packet to be read and gives its CPU away meanwhile, it
    takes that time off twice. With a second CPU for the reader it need not give it
    away. With one CPU it was seen on 5.10, 6.1 and 6.12 (34 instructions for a packet,
    or less than none), and not on 7.3, which preempts it. Of those between nothing is
    known, and count() refuses what cannot be.
    """
    if cpus > 1:
        return tasks.unswitched(f"kpktgend_{cpus - 1}")
    if int(release.partition(".")[0]) < 7:
        raise Skipped("this kernel's pktgen does not tell its busy time on one CPU")
    return contextlib.nullcontext()


@contextlib.contextmanager
def sender(path: str, env: GuestEnv) -> Iterator[Callable[[Reader], float]]:
    """A function that sends a burst into the ring of a reader it pauses, and returns
    the seconds that took; path: "socket", or pktgen's "qdisc" or "direct"."""

    def by_socket(reader: Reader) -> float:
        argv = [env.helper("sender"), str(PAYLOAD_BYTES), str(BURST)]
        reader.pause()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            # It holds all of them until the reader goes on.
            out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 28)
            out.connect((THERE.address, 9))
            with running(argv, stdin=out) as sender:
                counts = read_sent(sender)
        reader.resume()
        return float(counts["ns"]) / 1e9

    def by_pktgen(reader: Reader) -> float:
        """It ends when its last packet has been read: its wait is not timed."""
        reader.pause()
        pktgen.start([name])
        devices.wait_until(
            lambda: pktgen.read_sent_so_far([name]) == [BURST],
            f"{name}: {BURST} packets in a ring of {RING} (a stopped queue?)",
            pktgen.START_SECONDS,
            pause=0.05,  # longer than a burst: who asks takes the CPU
        )
        reader.resume()
        return pktgen.wait_ended([name])[0].busy_seconds

    if path == "socket":
        yield by_socket
    else:
        busy_time = busy_time_told(os.uname().release, os.cpu_count() or 1)
        with pktgen.senders(1, path == "direct", BURST) as (name,), busy_time:
            yield by_pktgen


def time_bursts(
    path: str, variant: str, env: GuestEnv, bursts: int, seconds: float = 0.0
) -> tuple[Sample, list[float]]:
    """So many bursts, or more for so long; the value is the fastest's packets/s. And the
    seconds of each."""
    end = time.monotonic() + seconds
    spent: list[float] = []
    read = Path(f"/sys/class/net/{HERE.name}/statistics/tx_packets")
    with devices.sink(env.helper("reader"), variant, ring=RING) as reader:
        with sender(path, env) as send:
            while len(spent) < bursts or time.monotonic() < end:
                spent.append(send(reader))
                devices.wait_until(
                    lambda: int(read.read_text()) >= len(spent) * BURST,
                    f"{HERE.name}: an empty ring",
                    DRAIN_SECONDS,
                    pause=0.002,
                )
        sent = len(spent) * BURST
        after = devices.wait_drained([HERE], direct=sent if path == "direct" else 0)
        reader.end()
    return sample(BURST / min(spent), after, sent=sent, read=reader.read), spent


def run(path: str, variant: str, seconds: float, env: GuestEnv) -> Sample:
    return time_bursts(path, variant, env, MIN_BURSTS, seconds)[0]


def count(path: str, others: int, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """others: so many taps beside it."""
    with crowd(others):
        taken, spent = time_bursts(path, variant, env, COST_BURSTS)
    counted = [round(s * 1e9 / BURST) for s in spent]
    if min(counted) < LEAST_INSTRUCTIONS:
        raise WorkloadError(
            f"{min(counted)} instructions for a packet: this kernel's pktgen "
            "does not tell its busy time"
        )
    taken.extra["instructions"] = counted
    return replace(taken, value=1e6 / statistics.median(counted))


WORKLOADS = [
    workload(
        f"never_full_{path}",
        f"{title}, ring never full (target_us=0)",
        "packets/s",
        partial(run, path),
        parameters=WHOLE_RING,
    )
    for path, title in (("socket", "UDP socket"), ("direct", "pktgen"))
]
# A socket's packet has some 5000 instructions behind it, pktgen's own 2000: the
# hook's part is the larger, the shorter the path.
COST = [
    workload(
        f"cost_{name}",
        f"{title} ({', '.join(parameters)})",
        "packets per million instructions",
        partial(count, path, others),
        floor=floor,
        parameters=parameters,
    )
    for name, path, title, floor, others, parameters in (
        ("socket", "socket", "UDP socket", 0.98, 0, WHOLE_RING),
        ("callback", "socket", "the same", None, 0, [*WHOLE_RING, CALLBACK]),
        ("qdisc", "qdisc", "pktgen through the qdisc", None, 0, WHOLE_RING),
        ("direct", "direct", "pktgen, direct", None, 0, WHOLE_RING),
        ("crowd_direct", "direct", f"beside {CROWD} taps", None, CROWD, WHOLE_RING),
    )
]
