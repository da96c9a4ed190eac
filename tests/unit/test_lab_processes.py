# SPDX-License-Identifier: GPL-2.0-or-later
"""After Ctrl-C a command ends by itself, and nothing more is begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import processes

REPOSITORY = Path(__file__).resolve().parents[2]
# Ends only a second after it was interrupted, as dpkg does.
SLOW = "import signal, time; signal.signal(signal.SIGINT, lambda *_: (time.sleep(1),"
SLOW += " open('ended', 'w').close(), exit(0))); open('begun', 'w').close()"
SLOW += "; time.sleep(60)"
LAB = f"""
import sys
from lab import __main__, processes
sys.argv = ["lab", "generate"]
command = [sys.executable, "-c", {SLOW!r}]
run = lambda: processes.run(command).returncode
__main__.SUBCOMMANDS.choices["generate"].set_defaults(function=run)
sys.exit(__main__.main())
"""


def test_interrupted_lab_waits_for_what_it_runs(tmp_path: Path) -> None:
    lab = subprocess.Popen(
        [sys.executable, "-B", "-c", LAB],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(lab.pid, signal.SIGINT)
    said = lab.communicate(timeout=30)[1]
    assert (tmp_path / "ended").exists(), "it was killed"
    assert said == "lab: interrupted; what is complete stays in the cache\n"
    assert lab.returncode == 130


def test_workers_begin_nothing_after_ctrl_c() -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        processes.run(["sleep", "0.1"])
        processes.interrupted.wait(10)
        processes.run(["sleep", "60"])

    with pytest.raises(KeyboardInterrupt):
        with processes.workers(1) as pool:
            for number in range(10):
                pool.submit(work, number)
            raise KeyboardInterrupt
    assert begun in ([], [0])  # and its second command was not begun
