# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own tests of tun and tap, with sluice and without."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.checks.testing import KERNEL
from lab.machines.matrix import kernel_named
from tests.kernel import _selftests as selftests

SUITE = replace(KERNEL, stage=selftests.stage)


@pytest.mark.parametrize("name", selftests.KERNELS)
def test_outcomes_are_the_same(name: str, assert_module_passes) -> None:
    kernel = kernel_named(name)
    assert_module_passes(kernel, "selftests", SUITE, selftests.packages(kernel))
