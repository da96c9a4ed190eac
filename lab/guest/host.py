# SPDX-License-Identifier: GPL-2.0-or-later
"""What a sample is worth on a native machine, whose processes are another's: how much
of the host's CPUs others use, how late the kernel's timers come (each CPU has one every
5 ms, in kernel_reader), and what a system call takes.

The host writes a line several times a second to the terminal that progress goes to: its
time, and the CPU seconds that others have used; see tell_load() in
lab/machines/native/boot.py.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

TERMINAL = "/dev/tty1"
QUIET_PERCENT = 10.0  # with more, a sample says little
TIMERS = Path("/dev/kernel_reader")
CALLS = 2000


def stop_echo() -> None:
    """Or the host's lines are shown as progress."""
    subprocess.run(["stty", "-F", TERMINAL, "-echo"], check=True)


class HostLoad:
    def __init__(self) -> None:
        self._fd = os.open(TERMINAL, os.O_RDONLY | os.O_NONBLOCK)
        self._last = (0.0, 0.0)

    def read(self) -> Tuple[float, float]:
        """The newest line, after those that wait; waits for one that is fresh."""
        self._drain()
        while not self._drain():
            time.sleep(0.02)
        return self._last

    def _drain(self) -> bool:
        fresh = False
        while True:
            try:
                words = os.read(self._fd, 4096).decode().split()
            except BlockingIOError:
                return fresh
            if len(words) == 2:  # or some were lost meanwhile
                self._last, fresh = (float(words[0]), float(words[1])), True

    def percent_since(self, before: Tuple[float, float]) -> float:
        """Of all the host's CPUs."""
        now, used = self.read()
        seconds = max(now - before[0], 0.1) * (os.cpu_count() or 1)
        return round(max(0.0, 100 * (used - before[1]) / seconds), 1)


def system_call_us() -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        os.getppid()
    return round((time.perf_counter() - started) * 1e6 / CALLS, 1)


def read_late() -> List[int]:
    """How many timers were late by up to 1, 2, 4, 8 ... us, since the module's load."""
    if not TIMERS.exists():
        return []
    with open(TIMERS, "rb", buffering=0) as device:
        return [int(count) for count in device.read(4096).split()]


def late_percentile(counts: List[int], percent: float) -> Optional[int]:
    """In us, rounded up to a power of two."""
    below, wanted = 0, percent / 100 * sum(counts)
    for power, count in enumerate(counts):
        below += count
        if count and below >= wanted:
            return 1 << power
    return None


def late_since(before: List[int]) -> Dict[str, Optional[int]]:
    now = read_late()
    new = [count - old for count, old in zip(now, before or [0] * len(now))]
    return {f"p{percent}": late_percentile(new, percent) for percent in (50, 95, 99)}
