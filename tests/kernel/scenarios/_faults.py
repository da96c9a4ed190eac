# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory that is refused now and then, to the processes that are to live with it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterator, Sequence

DEBUG = Path("/sys/kernel/debug")
KINDS = ("failslab", "fail_page_alloc")
# Of the chosen processes only, as often as it comes, without a word in the log,
# and also where the kernel could wait for memory.
SETTINGS = {"task-filter": "Y", "times": "-1", "verbose": "0", "ignore-gfp-wait": "N"}


def is_offered() -> bool:
    return all((DEBUG / kind).exists() for kind in KINDS)


@contextlib.contextmanager
def refused_memory(processes: Sequence[int], percent: int) -> Iterator[None]:
    """Of what these processes, and those they start, ask the kernel for."""
    for kind in KINDS:
        for name, value in {**SETTINGS, "probability": str(percent)}.items():
            (DEBUG / kind / name).write_text(value)
    # Opened before: nothing can be opened for certain any more.
    switches = [os.open(f"/proc/{one}/make-it-fail", os.O_WRONLY) for one in processes]
    try:
        for switch in switches:
            os.pwrite(switch, b"1", 0)
        yield
    finally:
        for switch in switches:
            os.pwrite(switch, b"0", 0)
            os.close(switch)
