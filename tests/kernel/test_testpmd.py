# SPDX-License-Identifier: GPL-2.0-or-later
"""The scenarios with DPDK's testpmd, in a root that has it: make test-all only."""

from __future__ import annotations

import pytest

from lab.matrix import KERNELS
from lab.testing import play, read_scenarios

NAMES = [name for name in read_scenarios() if name.startswith("testpmd.")]


def test_testpmd_loses_nothing(pytestconfig, capfd) -> None:
    if not pytestconfig.getoption("--every"):
        pytest.skip("needs a root of its own; make test-all has it")

    def show(line: str) -> None:
        with capfd.disabled():
            print(f"    {line}", flush=True)

    played = play(KERNELS[-1], NAMES, show, extra=("dpdk-dev",))
    assert played.trouble == []
    outcomes = {name: one.outcome for name, one in played.outcomes.items()}
    assert outcomes == dict.fromkeys(NAMES, "passed"), played.outcomes
