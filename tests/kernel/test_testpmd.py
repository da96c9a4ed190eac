# SPDX-License-Identifier: GPL-2.0-or-later
"""The scenarios with DPDK's testpmd, in a root that has it."""

from __future__ import annotations

from lab.checks.testing import KERNEL
from lab.machines.matrix import KERNELS


def test_testpmd_loses_nothing(assert_module_passes) -> None:
    assert_module_passes(KERNELS[-1], "testpmd", KERNEL, ("dpdk-dev",))
