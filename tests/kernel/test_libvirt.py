# SPDX-License-Identifier: GPL-2.0-or-later
"""The scenarios with libvirt, in a root that has it."""

from __future__ import annotations

from lab.checks.testing import KERNEL
from lab.machines.matrix import kernel_named

PACKAGES = ("libvirt-clients", "libvirt-daemon", "libvirt-daemon-driver-qemu")
PACKAGES += ("libvirt-daemon-driver-network", "qemu-system-x86", "seabios", "ipxe-qemu")


def test_taps_of_libvirts_guests(assert_module_passes) -> None:
    assert_module_passes(kernel_named("6.12"), "libvirt", KERNEL, PACKAGES)
