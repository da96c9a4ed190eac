# SPDX-License-Identifier: GPL-2.0-or-later
"""How much memory the kernel has given away."""

from __future__ import annotations

from pathlib import Path

from lab.guest.debug import finds_leaks


def read_kb(name: str) -> int:
    """A line of /proc/meminfo; SUnreclaim is what slabs hold for good."""
    Path("/proc/sys/vm/stat_refresh").write_text("1")  # or it lags by megabytes
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise AssertionError(f"/proc/meminfo: no {name}")


def allowed(size: int) -> int:
    """Bytes; locks, timers and the space around them are larger where all is watched."""
    return 2 * size if finds_leaks() else size
