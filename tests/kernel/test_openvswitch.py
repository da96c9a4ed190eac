# SPDX-License-Identifier: GPL-2.0-or-later
"""The scenarios with Open vSwitch, in a root that has it."""

from __future__ import annotations

from lab.checks.testing import KERNEL
from lab.machines.matrix import kernel_named


def test_taps_as_ports_of_open_vswitch(assert_module_passes) -> None:
    packages = ("openvswitch-switch",)
    assert_module_passes(kernel_named("6.12"), "openvswitch", KERNEL, packages)
