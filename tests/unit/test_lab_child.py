# SPDX-License-Identifier: GPL-2.0-or-later
"""A child answers, raises or is lost, and leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from lab.guest.child import run_child


def test_answer_comes_back() -> None:
    assert run_child(lambda: {"value": 3}, 10).answer == {"value": 3}


def test_exception_is_named() -> None:
    def fail() -> None:
        raise ValueError("ring is empty")

    ending = run_child(fail, 10)
    assert (ending.error, ending.message) == ("ValueError", "ring is empty")


def test_deadline_ends_the_child_and_what_it_started(tmp_path) -> None:
    noted = tmp_path / "pid"

    def hang() -> None:
        started = subprocess.Popen(["sleep", "60"])
        noted.write_text(str(started.pid))
        time.sleep(60)

    assert run_child(hang, 1).lost
    pid = int(noted.read_text())
    for _ in range(100):
        stat = f"/proc/{pid}/stat"
        if not os.path.exists(stat) or open(stat).read().split()[2] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} survives its parent")


def test_killed_child_is_lost() -> None:
    ending = run_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 10)
    assert ending.lost and "died" in ending.message
