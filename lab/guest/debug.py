# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: what a debug kernel reports only on request.

Its answers go into the kernel's log, where the host looks for trouble. Other
kernels are asked nothing.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

LEAKS = Path("/sys/kernel/debug/kmemleak")
LEAK_AGE_SECONDS = 6.0  # younger memory is not looked at
LOCKS = Path("/proc/lockdep_stats")
RACES = Path("/sys/kernel/debug/kcsan")


def finds_leaks() -> bool:
    return LEAKS.exists()


def parse_is_watching(lockdep_stats: str) -> bool:
    """Whether lockdep is still on: it switches itself off at its first report."""
    return re.search(r"^\s*debug_locks:\s*1$", lockdep_stats, re.MULTILINE) is not None


def read_leaks() -> str:
    """Leaked memory: found by two scans, unchanged."""
    for _ in range(2):
        time.sleep(LEAK_AGE_SECONDS)
        LEAKS.write_text("scan")
    return LEAKS.read_text()


def forget_leaks() -> None:
    """Do not report what was leaked until now."""
    if finds_leaks():
        read_leaks()
        LEAKS.write_text("clear")


def _log(text: str) -> None:
    Path("/proc/sys/kernel/printk_devkmsg").write_text("on\n")  # not ten lines only
    for line in text.splitlines():
        Path("/dev/kmsg").write_text(f"<3>{line}")


def ask_kernel() -> None:
    if finds_leaks():
        _log(read_leaks())
    if LOCKS.exists() and not parse_is_watching(LOCKS.read_text()):
        _log("lab: lockdep has stopped watching")
