# SPDX-License-Identifier: GPL-2.0-or-later
"""Every scenario of tests/kernel on the kernels that watch themselves."""

from __future__ import annotations

from lab.checks import testing
from tests._outcomes import assert_no_trouble, assert_passed

SUITE = testing.DEBUGGED


def test_scenario(kernel, name, played) -> None:
    assert_passed(played(kernel), name)


def test_kernel_is_silent(kernel, played) -> None:
    assert_no_trouble(played(kernel))
