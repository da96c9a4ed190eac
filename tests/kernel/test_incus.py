# SPDX-License-Identifier: GPL-2.0-or-later
"""The scenario with Incus, in a root that has it."""

from __future__ import annotations

from lab.checks.testing import KERNEL
from lab.machines.matrix import kernel_named

PACKAGES = ("incus", "ovmf", "qemu-system-modules-spice")


def test_tap_of_a_virtual_machine(assert_module_passes) -> None:
    assert_module_passes(kernel_named("6.12"), "incus", KERNEL, PACKAGES)
