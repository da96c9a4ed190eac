# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers that are away for a time, as processes and inside the kernel.

A reader on a tick reads 500 packets at most each time, or until the ring is empty; one
that pauses reads as fast as it can for 700 ms of each second.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lab.guest import devices
from lab.guest.devices import NEAR
from lab.guest.env import GuestEnv
from lab.row import Row, Sample, Workload, sample
from lab.workloads.in_kernel import IN_KERNEL
from lab.workloads.tcp import (
    BLOCK,
    FLOOD,
    START_SECONDS,
    Pace,
    load,
    server,
    settle,
    tcp_workload,
)

TICKS_MS = (1, 5, 10, 20, 50)
LONG = "pause_300ms"  # longer than a stop may last: senders pass, the ring overflows
RHYTHMS = {
    **{f"tick_{ms}ms": ("--tick-us", str(1000 * ms)) for ms in TICKS_MS},
    LONG: ("--pause-us", "300000"),
}
OF_TCP = ("tick_10ms", "tick_50ms", LONG)
# A reader: what its rows' names begin with, its title, and further options of it.
READERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "", ()),
    ("kernel_", ", in kernel", IN_KERNEL),
)


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
    options = pace.options
    with devices.forwarder(env.reader(options), variant, options) as reader, server():
        with ThreadPoolExecutor() as pool:
            rate = pool.submit(_read_rate, seconds)
            _, pinged = load(1, seconds + 2 * START_SECONDS, *FLOOD.options)
        after, read = settle(reader)
        reader.end()
    return sample(rate.result(), after, {}, pinged, read=read)


def _pace(rhythm: str, where: str, options: tuple[str, ...]) -> Pace:
    title = f"{rhythm.replace('_', ' ')}{where}"
    return Pace(title, (*options, *RHYTHMS[rhythm]), block=BLOCK)


def _flood(name: str, pace: Pace, lossless: bool) -> Workload:
    title = f"UDP flood, {pace.title}"
    row = Row(name, title, "packets/s", usual=True, floor=0.97, lossless=lossless)
    return Workload(row, partial(flood, pace))


WORKLOADS = [
    *(
        _flood(f"{prefix}udp_{rhythm}", _pace(rhythm, where, options), rhythm != LONG)
        for prefix, where, options in READERS
        for rhythm in RHYTHMS
    ),
    *(
        tcp_workload(
            f"{prefix}tcp_8_{rhythm}",
            8,
            _pace(rhythm, where, options),
            usual=True,
            lossless=rhythm != LONG,
        )
        for prefix, where, options in READERS
        for rhythm in OF_TCP
    ),
]
