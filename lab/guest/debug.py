# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: what a debug kernel reports only on request.

Its answers go into the kernel's log, where the host looks for trouble. Other
kernels are asked nothing.
"""

from __future__ import annotations

import os
import time

LEAKS = "/sys/kernel/debug/kmemleak"
LEAK_AGE_SECONDS = 6.0  # younger memory is not looked at
LOCKS = "/proc/lockdep_stats"


def finds_leaks() -> bool:
    """Whether this kernel has kmemleak."""
    return os.path.exists(LEAKS)


def parse_is_watching(lockdep_stats: str) -> bool:
    """Whether lockdep is still on: it switches itself off at its first report."""
    for line in lockdep_stats.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "debug_locks":
            return value.strip() == "1"
    return False


def _command(word: str) -> None:
    with open(LEAKS, "w") as leaks:
        leaks.write(word)


def read_leaks() -> str:
    """Leaked memory: found by two scans, unchanged."""
    for _ in range(2):
        time.sleep(LEAK_AGE_SECONDS)
        _command("scan")
    with open(LEAKS) as leaks:
        return leaks.read()


def forget_leaks() -> None:
    """Do not report what was leaked until now."""
    if finds_leaks():
        read_leaks()
        _command("clear")


def _tell(text: str) -> None:
    with open("/proc/sys/kernel/printk_devkmsg", "w") as limit:
        limit.write("on\n")  # all of it, not ten lines
    for line in text.splitlines():
        with open("/dev/kmsg", "w") as log:
            log.write(f"<3>{line}")


def ask_kernel() -> None:
    """Log leaked memory, and whether lockdep is off."""
    if finds_leaks():
        _tell(read_leaks())
    if os.path.exists(LOCKS):
        with open(LOCKS) as stats:
            if not parse_is_watching(stats.read()):
                _tell("lab: lockdep has stopped watching")
