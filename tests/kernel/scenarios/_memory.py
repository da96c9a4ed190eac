# SPDX-License-Identifier: GPL-2.0-or-later
"""How much memory the kernel uses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.guest.debug import finds_leaks

LEAK_KB = 16 * 1024


def grown_kb(first: Sequence[int], last: Sequence[int]) -> int:
    """Each is in use, in kB, measured in two ways: a leak raises both, other things only
    one."""
    return min(now - then for now, then in zip(last, first))


def assert_given_back(grown: int) -> None:
    """kmemleak's kernel frees memory late."""
    assert grown < LEAK_KB or finds_leaks(), f"{grown} kB are not given back"


def read_kb(name: str) -> int:
    """A value of /proc/meminfo; SUnreclaim is the memory of slabs that is in use."""
    Path("/proc/sys/vm/stat_refresh").write_text("1")  # or the value is megabytes old
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise AssertionError(f"/proc/meminfo: no {name}")


def allowed(size: int) -> int:
    """Bytes that sluice may take: locks and timers are larger on a debug kernel."""
    return 2 * size if finds_leaks() else size
