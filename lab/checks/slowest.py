# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the time of make test goes: the steps that take longest."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

MOST = 10  # are shown

Times = list[tuple[float, str]]  # seconds, and of what
taken: Times = []  # by this process


def note(name: str, seconds: float) -> None:
    taken.append((seconds, name))


@contextlib.contextmanager
def timed(name: str) -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        note(name, time.monotonic() - started)


def write(path: Path) -> None:
    """For the process that goes on; see read()."""
    path.write_text(json.dumps(taken))


def read(path: Path) -> None:
    """What another process took until now counts as ours, too."""
    taken.extend((seconds, name) for seconds, name in json.loads(path.read_text()))


def format_slowest() -> list[str]:
    """The longest first."""
    longest = sorted(taken, reverse=True)[:MOST]
    return [f"{seconds:6.0f} s  {name}" for seconds, name in longest]
