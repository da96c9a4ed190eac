# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own tests of tun and tap, with sluice and without: make test-all only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab import selftests
from lab.matrix import kernel_named
from lab.testing import KERNEL, play, read_scenarios

NAMES = [name for name in read_scenarios() if name.startswith("selftests.")]
SUITE = replace(KERNEL, stage=selftests.stage)


@pytest.mark.parametrize("name", selftests.KERNELS)
def test_outcomes_are_the_same(name: str, pytestconfig, capfd) -> None:
    if not pytestconfig.getoption("--every"):
        pytest.skip("needs the kernel's source; make test-all has it")

    def show(line: str) -> None:
        with capfd.disabled():
            print(f"    {line}", flush=True)

    kernel = kernel_named(name)
    played = play(kernel, NAMES, show, SUITE, extra=selftests.packages(kernel))
    assert played.trouble == []
    outcomes = {name: one.outcome for name, one in played.outcomes.items()}
    assert outcomes == dict.fromkeys(NAMES, "passed"), played.outcomes
