# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios that need a program which no other root has."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lab.checks.testing import KERNEL, Suite
from lab.machines import build
from lab.machines.chroot import Root
from lab.machines.matrix import NEWEST, kernel_named


def stage_with_ynl(root: Root, output: Path) -> None:
    """What the guest needs, and the kernel's own netlink client below /out/linux."""
    files = build.ensure_kernel_files()
    shutil.copytree(files, output / "linux", dirs_exist_ok=True)
    build.stage(root, output)


LIBVIRT = ("libvirt-clients", "libvirt-daemon", "libvirt-daemon-driver-qemu")
LIBVIRT += ("libvirt-daemon-driver-network", "qemu-system-x86", "seabios", "ipxe-qemu")
SLOW = replace(KERNEL, seconds=300.0)  # bpftrace compiles each of its programs
YNL = replace(KERNEL, stage=stage_with_ynl)


@pytest.mark.parametrize(("module", "kernel_name", "suite", "packages"), [
    ("bpftrace", "6.12", SLOW, ("bpftrace",)),
    ("bpftrace", NEWEST, SLOW, ("bpftrace",)),
    ("libvirt", "6.12", KERNEL, LIBVIRT),
    ("openvswitch", "6.12", KERNEL, ("openvswitch-switch",)),
    ("ynl", "6.12", YNL, ("python3-jsonschema", "python3-yaml")),
], ids=lambda value: value if isinstance(value, str) else "")
def test_scenarios_of(
    assert_module_passes, module: str, kernel_name: str, suite: Suite, packages
) -> None:
    assert_module_passes(kernel_named(kernel_name), module, suite, packages)
