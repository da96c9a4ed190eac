# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's PREEMPT_RT kernel, with systemd: the packages do no harm and say why."""

from __future__ import annotations

from dataclasses import replace

from lab.checks.testing import PACKAGING
from lab.machines.matrix import kernel_named

REALTIME = replace(kernel_named("6.12"), name="6.12-rt", release="rt-amd64")
SUITE = replace(PACKAGING, cmdline="lab.systemd")


def test_realtime_kernel_says_why_nothing_is_served(assert_module_passes) -> None:
    assert_module_passes(REALTIME, "realtime", SUITE, PACKAGING.extra)
