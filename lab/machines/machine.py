# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest is given, whatever starts it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.machines.chroot import Root
from lab.machines.matrix import MEMORY_MB

VCPUS = 4
NO_POLICY = "audit=0 apparmor=0 selinux=0"  # nothing watches the guest's processes


@dataclass(frozen=True)
class Machine:
    root: Root
    output: Path
    vcpus: int = VCPUS
    memory_mb: int = MEMORY_MB
    counted: bool = False  # an instruction takes 1 ns, the vCPUs take turns; emulated
    disk: Path | None = None  # an image of its root, instead of the share
    changes: Path | None = None  # an image that keeps what it changes; with a disk
    cmdline: str = ""  # more of the kernel's command line
    policy: str = NO_POLICY
