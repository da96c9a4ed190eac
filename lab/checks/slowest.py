# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the time of make test goes: the steps that take longest.

The lab, and the pytest that it starts, add lines to one file, which TIMES names.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

TIMES = "SLUICE_TIMES"  # in the environment


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """What is noted meanwhile, also by processes that are started."""
    with tempfile.NamedTemporaryFile(prefix="sluice-times-") as file:
        os.environ[TIMES] = file.name
        try:
            yield
        finally:
            del os.environ[TIMES]


def note(name: str, seconds: float) -> None:
    if path := os.environ.get(TIMES):
        with open(path, "a") as times:
            times.write(f"{seconds:6.0f} s  {name}\n")


@contextlib.contextmanager
def timed(name: str) -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        note(name, time.monotonic() - started)


def read_slowest() -> list[str]:
    """Ten, the longest first; nothing if none were kept."""
    path = os.environ.get(TIMES, os.devnull)
    return sorted(Path(path).read_text().splitlines(), reverse=True)[:10]
