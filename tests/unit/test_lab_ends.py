# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab leaves behind when it is ended, or when something does not build."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.cache import USE, cache_dir, cached

# As a build in a root: a shell, whose child computes, asked for by a worker.
BUILD = """
import signal
from lab import processes
signal.signal(signal.SIGTERM, processes.terminate)
with processes.workers(1) as pool:
    pool.submit(processes.run, ["sh", "-c", "sh -c 'echo $$ >started; exec sleep 60'; :"])
"""


def is_running(pid: int) -> bool:
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


def test_sigterm_ends_what_the_lab_has_started(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-B", "-c", BUILD]
    lab = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    started = tmp_path / "started"
    while not started.exists() or not started.read_text().endswith("\n"):
        time.sleep(0.01)
    lab.terminate()
    assert b"Terminated" in lab.communicate()[1]
    assert not is_running(int(started.read_text()))


def test_what_did_not_build_is_resumed_or_removed(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))

    def build(key: str, fails: bool) -> Path:
        final = tmp_path / "kernels" / f"tree-{key}"
        with cached(final, resumed=True) as work:
            assert work
            (work / "objects").open("a").write(key)
            if fails:
                raise ValueError
        return final

    for key in ("a", "b", "b"):
        with pytest.raises(ValueError):
            build(key, fails=True)
    assert (build("b", fails=False) / "objects").read_text() == "bbb"
    assert [path.name for path in (tmp_path / "kernels").iterdir()] == ["tree-b"]


def test_what_is_used_of_the_cache_is_not_emptied(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    (cache_dir() / "roots" / "6.12-a").mkdir(parents=True)
    with cached(cache_dir() / "roots" / "6.12-a") as work:
        assert work is None
    with open(cache_dir() / "locks" / USE) as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
