# SPDX-License-Identifier: GPL-2.0-or-later
"""The packages where systemd is the first process; make test-all only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.checks.testing import PACKAGING, play_across_boots
from lab.machines.matrix import kernel_named

KERNEL = kernel_named("6.12")
SUITE = replace(PACKAGING, cmdline="lab.systemd")
BOOTS = [
    "under_systemd.boot_1_installs_the_packages",
    "under_systemd.boot_2_has_the_rules_in_force",
]
REALTIME = replace(KERNEL, name="6.12-rt", release="rt-amd64")


def test_upgrade_and_purge(assert_module_passes) -> None:
    assert_module_passes(KERNEL, "under_systemd.taps_in_use", SUITE, ())


def test_reboot(pytestconfig, show) -> None:
    if not pytestconfig.getoption("--every"):
        pytest.skip("takes two boots; make test-all has it")
    played = play_across_boots(KERNEL, BOOTS, show, SUITE)
    assert played.trouble == []
    outcomes = {name: one.outcome for name, one in played.outcomes.items()}
    assert outcomes == dict.fromkeys(BOOTS, "passed"), played.outcomes


def test_realtime_kernel_says_why_nothing_is_served(assert_module_passes) -> None:
    """Debian's PREEMPT_RT kernel: the packages do no harm."""
    assert_module_passes(REALTIME, "realtime", SUITE, PACKAGING.extra)
