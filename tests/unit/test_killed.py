# SPDX-License-Identifier: GPL-2.0-or-later
"""on, off and forget, killed between any two of their steps."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice import config, doctor, system
from sluice.cli import main
from tests.unit._machine import Machine

STEPS = ("rename", "pwrite", "ftruncate", "fsync", "fchmod", "unlink")
BEFORE = "tap0 on\n" + "# a long comment\n" * 9 + "tun0 off\n"


def _play(arguments: list[str], number: int, in_place: bool, module: Path) -> None:
    """Run the command, and be killed before its step of this number."""
    passed = 0

    def stopping(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*words: Any) -> Any:
            nonlocal passed
            if passed == number:
                os.kill(os.getpid(), signal.SIGKILL)
            passed += 1
            return call(*words)

        return step

    def refuse(*_: object) -> None:
        raise OSError(16, "Device or resource busy")  # a bind mount

    def set_rules(rules: object, reset: object) -> None:
        module.write_bytes(pickle.dumps(rules))

    if in_place:
        os.rename = refuse
    for name in STEPS:
        setattr(os, name, stopping(getattr(os, name)))
    system.set_rules = stopping(set_rules)
    os._exit(main(arguments))


def _killed(arguments: list[str], number: int, in_place: bool, module: Path) -> bool:
    words = (arguments, number, in_place, module)
    process = multiprocessing.get_context("fork").Process(target=_play, args=words)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("arguments", ["off tap0", "on vnet* --limit 7", "forget tun0"])
def test_doctor_names_what_a_kill_leaves(
    machine: Machine, tmp_path: Path, arguments: str, in_place: bool
) -> None:
    module, number, named = tmp_path / "module", 0, 0
    while True:
        config.PATH.write_text(BEFORE)
        assert main(["apply"]) == 0
        module.write_bytes(pickle.dumps(machine.rules))
        if not _killed(arguments.split(), number, in_place, module):
            break
        machine.rules = pickle.loads(module.read_bytes())
        facts = doctor.Facts(
            wrongs=config.read_all().wrongs,
            drift=doctor.read_drift(),
            unfinished=doctor.read_unfinished(),
        )
        findings = [*doctor.check_rules(facts)]
        same = doctor.read_drift() == () and not facts.unfinished
        assert bool(findings) != same, (number, findings)
        assert not facts.wrongs, "a half of the rules is in the file"
        named += bool(findings)
        assert main(["apply"]) == 0 and doctor.read_drift() == ()
        number += 1
    assert number >= 4 and named >= 1
    assert not config.unfinished().exists(), "the next command did not clear up"
