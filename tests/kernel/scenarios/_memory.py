# SPDX-License-Identifier: GPL-2.0-or-later
"""How much memory the kernel uses, and allocations that fail now and then."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.guest.debug import finds_leaks

LEAK_KB = 16 * 1024
DEBUG = Path("/sys/kernel/debug")
KINDS = ("failslab", "fail_page_alloc")
# Only for the chosen processes, without a limit, without a message in the log, and
# also where the kernel could wait for memory.
SETTINGS = {"task-filter": "Y", "times": "-1", "verbose": "0", "ignore-gfp-wait": "N"}


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


def can_be_refused() -> bool:
    """Whether this kernel makes allocations fail if asked."""
    return all((DEBUG / kind).exists() for kind in KINDS)


@contextlib.contextmanager
def refused_memory(processes: Sequence[int], percent: int) -> Iterator[None]:
    """So many percent of the allocations of these processes and their children fail."""
    for kind in KINDS:
        for name, value in {**SETTINGS, "probability": str(percent)}.items():
            (DEBUG / kind / name).write_text(value)
    # Opened before: later an open() may fail.
    switches = [os.open(f"/proc/{one}/make-it-fail", os.O_WRONLY) for one in processes]
    try:
        for switch in switches:
            os.pwrite(switch, b"1", 0)
        yield
    finally:
        for switch in switches:
            os.pwrite(switch, b"0", 0)
            os.close(switch)
