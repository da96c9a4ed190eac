# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: one function in a process of its own, with a deadline."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

# For a killed process to end: it may hold hundreds of devices' files, and a debug
# kernel is slow to close each.
ENDING_SECONDS = 300.0
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Ending:
    """How a child ended: with an answer, with an exception, or lost."""

    answer: Any = None
    error: str | None = None  # it raised: the type's name
    message: str = ""
    lost: bool = False  # it died, or its deadline passed


def _answer(function: Callable[[], Any], pipe: Any) -> None:
    os.setsid()
    try:
        ending = Ending(function())
    except BaseException as error:  # the parent decides what it means
        traceback.print_exc()
        message = str(error) or traceback.format_exc().strip()
        ending = Ending(error=type(error).__name__, message=message)
    pipe.send(ending)


def _end(child: Any) -> None:
    """Ends the child and all it started."""
    deadline = time.monotonic() + ENDING_SECONDS
    ended = False
    while not ended:
        if time.monotonic() > deadline:
            # The boot cannot be used any more.
            raise RuntimeError(f"process {child.pid} survives SIGKILL")
        ended = child.exitcode is not None  # once more after that: what it started
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.join(0.02)


def run_child(function: Callable[[], Any], seconds: float) -> Ending:
    """What the function answers, with everything it started ended."""
    reading, writing = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=_answer, args=(function, writing))
    child.start()
    writing.close()
    ending, lost = None, f"no answer within {seconds:.0f} s"
    with reading, suppress(EOFError, OSError):
        if reading.poll(seconds):
            lost = ""
            ending = reading.recv()
    _end(child)
    return ending or Ending(lost=True, message=lost or f"died, status {child.exitcode}")
