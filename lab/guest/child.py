# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: one function in a process of its own, with a deadline."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Callable, Optional

# For a killed process to end: it may hold hundreds of devices' files, and a debug
# kernel is slow to close each.
ENDING_SECONDS = 300.0


@dataclass(frozen=True)
class Ending:
    """How a child ended: with an answer, with an exception, or lost."""

    answer: Any = None
    error: Optional[str] = None  # it raised: the type's name
    message: str = ""
    lost: bool = False  # it died, or its deadline passed


class Unkillable(Exception):
    """A process survives SIGKILL: the boot cannot be used any more."""


def _answer(function: Callable[[], Any], pipe: int) -> None:
    os.setsid()
    try:
        said = {"answer": function()}
    except BaseException as error:  # the parent decides what it means
        traceback.print_exc()
        message = str(error) or traceback.format_exc().strip()
        said = {"error": type(error).__name__, "message": message}
    with os.fdopen(pipe, "w") as out:
        json.dump(said, out)


def _read_until(pipe: int, deadline: float) -> Optional[bytes]:
    """All the child writes; None if the deadline passes first."""
    data = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return None
        chunk = os.read(pipe, 65536)
        if not chunk:
            return data
        data += chunk


def _end(child: int) -> int:
    """Ends the child and all it started; its wait status."""
    deadline = time.monotonic() + ENDING_SECONDS
    while True:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            return status
        if time.monotonic() > deadline:
            raise Unkillable(f"process {child} survives SIGKILL")
        time.sleep(0.02)


def run_child(function: Callable[[], Any], seconds: float) -> Ending:
    """What the function answers (JSON), with everything it started ended."""
    deadline = time.monotonic() + seconds
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            _answer(function, writing)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        data = _read_until(pipe.fileno(), deadline)
    if data is None:
        _end(child)
        return Ending(lost=True, message=f"no answer within {seconds:.0f} s")
    status = _end(child)
    if not data:
        return Ending(lost=True, message=f"died, wait status {status}")
    said = json.loads(data)
    return Ending(said.get("answer"), said.get("error"), said.get("message", ""))
