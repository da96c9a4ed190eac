# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes and threads that end in order after Ctrl-C and SIGTERM.

The terminal interrupts the lab and all it started. subprocess.run() would kill what it
runs a quarter of a second later, apt-get and dpkg in the middle of their work.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from lab.failure import LabError

interrupted = threading.Event()  # the workers


class Terminated(KeyboardInterrupt):
    """SIGTERM ends the lab as Ctrl-C does."""


def children(pid: int) -> list[int]:
    """The processes that a process has started, in any of its threads, and not reaped."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            found += map(int, path.read_text().split())
    return found


def _interrupt_below(pid: int) -> None:
    for child in children(pid):
        _interrupt_below(child)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGINT)


def terminate(*_: object) -> NoReturn:
    """The handler of SIGTERM: does what a terminal does at Ctrl-C."""
    _interrupt_below(os.getpid())
    raise Terminated


def run(command: Sequence[str | Path], **popen: Any) -> subprocess.CompletedProcess[str]:
    """As subprocess.run(); after Ctrl-C the command ends by itself, after two it is left.

    popen: arguments of Popen.
    """
    if interrupted.is_set() and threading.current_thread() != threading.main_thread():
        raise KeyboardInterrupt  # a worker's next command
    with subprocess.Popen(command, text=True, errors="replace", **popen) as process:
        try:
            output, errors = process.communicate()
        except KeyboardInterrupt:
            process.communicate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)


def must_run(
    command: Sequence[str | Path], failure: str, remedy: str, **popen: Any
) -> str:
    """All that a command says; LabError with its last line if it fails."""
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = run(command, stdin=subprocess.DEVNULL, **both, **popen)
    if done.returncode != 0:
        raise LabError(f"{failure} ({last_line(done.stdout)}); {remedy}")
    return done.stdout


@contextlib.contextmanager
def running(argv: Sequence[str], **popen: Any) -> Iterator[subprocess.Popen[str]]:
    """A process, killed at the end; its output is a pipe; popen: arguments of Popen."""
    popen = {"stdout": subprocess.PIPE, "universal_newlines": True, **popen}
    with subprocess.Popen(argv, **popen) as process:
        try:
            yield process
        finally:
            process.kill()


def last_line(log: str) -> str:
    return (log.strip().splitlines() or ["no output"])[-1]


@contextlib.contextmanager
def workers(number: int | None) -> Iterator[ThreadPoolExecutor]:
    """Threads; after Ctrl-C they begin nothing more."""
    interrupted.clear()
    with ThreadPoolExecutor(number) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            interrupted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
