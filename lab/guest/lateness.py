# SPDX-License-Identifier: GPL-2.0-or-later
"""How late the kernel's timers come (each CPU has one every 5 ms, in kernel_reader), and
what a system call takes: where processes are another's, both say what a row is worth."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Dict, List, Optional

DEVICE = Path("/dev/kernel_reader")


CALLS = 2000


def system_call_us() -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        os.getppid()
    return round((time.perf_counter() - started) * 1e6 / CALLS, 1)


def read() -> List[int]:
    """How many timers were late by up to 1, 2, 4, 8 ... us, since the module's load."""
    if not DEVICE.exists():
        return []
    with open(DEVICE, "rb", buffering=0) as device:
        return [int(count) for count in device.read(4096).split()]


def percentile(counts: List[int], percent: float) -> Optional[int]:
    """In us, rounded up to a power of two."""
    below, wanted = 0, percent / 100 * sum(counts)
    for power, count in enumerate(counts):
        below += count
        if count and below >= wanted:
            return 1 << power
    return None


def since(before: List[int]) -> Dict[str, Optional[int]]:
    now = read()
    new = [count - old for count, old in zip(now, before or [0] * len(now))]
    return {f"p{percent}": percentile(new, percent) for percent in (50, 95, 99)}
