# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own netlink client with our spec, in a root that has what it needs."""

from __future__ import annotations

from dataclasses import replace

from lab.checks.testing import KERNEL
from lab.machines.build import stage_with_ynl
from lab.machines.matrix import kernel_named

SUITE = replace(KERNEL, stage=stage_with_ynl)
NEEDS = ("python3-jsonschema", "python3-yaml")


def test_ynl_speaks_with_the_module(assert_module_passes) -> None:
    assert_module_passes(kernel_named("6.12"), "ynl", SUITE, NEEDS)
