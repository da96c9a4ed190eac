# SPDX-License-Identifier: GPL-2.0-or-later
"""The tasks of a reader: where they run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def tasks_named(name: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/task/[0-9]*/comm"):
        with contextlib.suppress(OSError):  # it has ended
            if path.read_text().strip() == name:
                found.append(int(path.parent.name))
    return found


def read_tasks(pid: int, vhost: bool) -> list[int]:
    """Who reads for a process: its threads, or vhost-net's, which is one of them
    since 6.4, and was a kernel thread before."""
    if vhost:
        return tasks_named(f"vhost-{pid}")
    return [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]


def pin(tasks: list[int], cpu: int) -> None:
    for task in tasks:
        os.sched_setaffinity(task, {cpu})


@contextlib.contextmanager
def unswitched(name: str) -> Iterator[None]:
    """The kernel's threads of this name keep their CPU while they have work."""
    threads = tasks_named(name)  # pktgen has some for each namespace

    def set_policy(policy: int, priority: int) -> None:
        for thread in threads:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(thread, policy, os.sched_param(priority))

    set_policy(os.SCHED_FIFO, 1)
    try:
        yield
    finally:
        set_policy(os.SCHED_OTHER, 0)
