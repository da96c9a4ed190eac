# SPDX-License-Identifier: GPL-2.0-or-later
"""The scenario of memory, in a machine with 1 GB."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.checks.testing import KERNEL
from lab.machines.matrix import NEWEST, kernel_named

SUITE = replace(KERNEL, cmdline="mem=1G")


@pytest.mark.parametrize("name", ("5.10", NEWEST))
def test_qdiscs_of_150_taps_take_bounded_memory(assert_module_passes, name: str) -> None:
    assert_module_passes(kernel_named(name), "memory", SUITE, ())
