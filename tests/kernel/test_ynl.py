# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own netlink client with our spec, in a root that has what it
needs: make test-all only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.build import stage_with_ynl
from lab.matrix import kernel_named
from lab.testing import KERNEL, play, read_scenarios

NAMES = [name for name in read_scenarios() if name.startswith("ynl.")]
NEEDS = ("python3-jsonschema", "python3-yaml")


def test_ynl_speaks_with_the_module(pytestconfig, capfd) -> None:
    if not pytestconfig.getoption("--every"):
        pytest.skip("needs a root of its own; make test-all has it")

    def show(line: str) -> None:
        with capfd.disabled():
            print(f"    {line}", flush=True)

    suite = replace(KERNEL, stage=stage_with_ynl)
    played = play(kernel_named("6.12"), NAMES, show, suite, extra=NEEDS)
    assert played.trouble == []
    outcomes = {name: one.outcome for name, one in played.outcomes.items()}
    assert outcomes == dict.fromkeys(NAMES, "passed"), played.outcomes
