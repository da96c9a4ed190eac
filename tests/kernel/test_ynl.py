# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own netlink client with our spec, in a root that has what it needs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from lab.checks.testing import KERNEL
from lab.machines import build
from lab.machines.chroot import Root
from lab.machines.matrix import kernel_named


def stage_with_ynl(root: Root, output: Path) -> None:
    """What the guest needs, and ynl below /out/linux."""
    shutil.copytree(build.ensure_ynl(root), output / "linux", dirs_exist_ok=True)
    build.stage(root, output)


SUITE = replace(KERNEL, stage=stage_with_ynl)
NEEDS = ("python3-jsonschema", "python3-yaml")


def test_ynl_speaks_with_the_module(assert_module_passes) -> None:
    assert_module_passes(kernel_named("6.12"), "ynl", SUITE, NEEDS)
