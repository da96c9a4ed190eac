# SPDX-License-Identifier: GPL-2.0-or-later
"""What a sample is worth on a native machine, whose processes are another's: how much
of the host's CPUs others use, and what a system call and a timer take.

The host tells the time and the CPU seconds that others have used in /out/load, five times
a second; see write_load() in lab/machines/native/boot.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

LOAD = Path("/out/load")
QUIET_PERCENT = 10.0  # with more, a sample says little
TIMER_NS = Path("/sys/module/kernel_reader/parameters/timer_ns")
CALLS = 2000


def read_load() -> tuple[float, float]:
    """The host's time, and the CPU seconds that others have used."""
    now, used = LOAD.read_text().split()
    return float(now), float(used)


def others_percent(before: tuple[float, float], now: tuple[float, float]) -> float:
    """Of all CPUs, from one time to another; each with the CPU seconds until then."""
    seconds = max(now[0] - before[0], 0.1) * (os.cpu_count() or 1)
    return round(max(0.0, 100 * (now[1] - before[1]) / seconds), 1)


def system_call_us() -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        os.getppid()
    return round((time.perf_counter() - started) * 1e6 / CALLS, 1)


def timer_us() -> float:
    """Measured by kernel_reader when it was loaded."""
    return round(int(TIMER_NS.read_text()) / 1000, 1)
