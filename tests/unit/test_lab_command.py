# SPDX-License-Identifier: GPL-2.0-or-later
"""Wrong arguments of the lab's command: one line, exit status 2, nothing done."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lab.vm import REPOSITORY


def lab(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-B", "-m", "lab", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bench", "--rounds", "0"], "must be above 0"),
        (["bench", "--rounds", "x"], "invalid int value"),
        (["bench", "--seconds", "-1"], "must be above 0"),
        (["bench", "--seconds", "inf"], "must be above 0"),
        (["demo", "--kernel", "1.0"], "choose"),
        (["demo", "--rows", "nonsense"], "choose from"),
        (["report", "/nonexistent"], "cannot be read"),
        (["bench", "--json", "/proc/there/is/none"], "cannot be written"),
        (["shell", "--cpus", "0"], "must be above 0"),
        (["nonsense"], "invalid choice"),
        ([], "required"),
    ],
)
def test_wrong_argument(arguments, says) -> None:
    done = lab(*arguments)
    assert done.returncode == 2, done
    assert says in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr
