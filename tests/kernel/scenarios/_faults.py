# SPDX-License-Identifier: GPL-2.0-or-later
"""Allocations of chosen processes that fail now and then."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

DEBUG = Path("/sys/kernel/debug")
KINDS = ("failslab", "fail_page_alloc")
# Only for the chosen processes, without a limit, without a message in the log, and
# also where the kernel could wait for memory.
SETTINGS = {"task-filter": "Y", "times": "-1", "verbose": "0", "ignore-gfp-wait": "N"}


def is_offered() -> bool:
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
