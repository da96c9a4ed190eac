# SPDX-License-Identifier: GPL-2.0-or-later
"""The scenarios with bpftrace, in roots that have it."""

from __future__ import annotations

import pytest

from lab.checks.testing import KERNEL
from lab.machines.matrix import NEWEST, kernel_named


@pytest.mark.parametrize("name", ("6.12", NEWEST))
def test_bpftrace_shares_the_hooked_function(assert_module_passes, name: str) -> None:
    assert_module_passes(kernel_named(name), "bpftrace", KERNEL, ("bpftrace",))
