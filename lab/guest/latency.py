# SPDX-License-Identifier: GPL-2.0-or-later
"""Ping under load, over the same device as the load."""

from __future__ import annotations

import contextlib
import math
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab.failure import WorkloadError
from lab.guest.devices import Device
from lab.processes import running

INTERVAL_SECONDS = 0.03


@dataclass(frozen=True)
class Latency:
    sent: int = 0
    received: int = 0
    times_ms: tuple[float, ...] = ()
    settled: int = 0  # sent until the last that was answered: later ones may come yet


NOT_ASKED = Latency()


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that `percent` of all values do not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def parse_ping(text: str) -> Latency:
    answers = re.findall(r"icmp_seq=(\d+) .*time[=<]([\d.]+)", text)
    summary = re.search(r"(\d+) packets transmitted, (\d+) received", text)
    if summary is None:
        raise WorkloadError("ping: printed no summary; it was cut short")
    sent, received = int(summary[1]), int(summary[2])
    settled = max((int(number) for number, _ in answers), default=sent)
    return Latency(sent, received, tuple(float(ms) for _, ms in answers), settled)


@contextlib.contextmanager
def ping(
    source: Device, target: Device, interval: float = INTERVAL_SECONDS, size: int = 56
) -> Iterator[Callable[[], Latency]]:
    """A running ping: the function that stops it and gives the latency; size: bytes in
    each packet."""
    words = ("ping", "-n", "-D", "-i", str(interval), "-s", str(size))
    argv = source.command(*words, target.address)
    # No pipe: ping would wait for ever once it is full, after some 800 answers.
    with tempfile.TemporaryFile("w+") as output:
        with running(argv, stdout=output, stderr=subprocess.STDOUT) as process:

            def end() -> Latency:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=10)
                output.seek(0)
                latency = parse_ping(output.read())
                if latency.sent == 0:
                    raise WorkloadError("ping: sent nothing; is the device up?")
                return latency

            yield end
