# SPDX-License-Identifier: GPL-2.0-or-later
"""The scenario with libvirt and its hook, in a root that has it."""

from __future__ import annotations

from lab.checks.testing import KERNEL
from lab.machines.matrix import kernel_named

PACKAGES = ("libvirt-clients", "libvirt-daemon", "libvirt-daemon-driver-qemu")
PACKAGES += ("qemu-system-x86", "seabios")


def test_hook_of_libvirt(assert_module_passes) -> None:
    assert_module_passes(kernel_named("6.12"), "libvirt", KERNEL, PACKAGES)
