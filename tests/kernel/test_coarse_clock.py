# SPDX-License-Identifier: GPL-2.0-or-later
"""Without high-resolution timers a ring drains long before a review: no load."""

from __future__ import annotations

from pathlib import Path

from lab.machines import build, vm
from lab.machines.matrix import kernel_named
from lab.machines.roots import ensure_root

# What modprobe and systemd-modules-load see is the exit status of insmod.
COMMAND = """
modprobe tun
insmod /out/sluice.ko
echo "insmod ended with $?"
dmesg | grep sluice:
lsmod | grep -q '^sluice ' && echo loaded || echo not loaded
"""


def test_coarse_timers_are_refused_with_the_reason(tmp_path: Path) -> None:
    root = ensure_root(kernel_named("6.12"))
    build.stage(root, tmp_path)
    lines: list[str] = []
    machine = vm.Machine(root, tmp_path, cmdline="highres=off")
    job = {"kind": "command", "argv": ["sh", "-c", COMMAND]}
    result = vm.run_job(machine, job, 600, lines.append)
    assert not result.trouble, result.trouble
    said = "\n".join(lines)
    assert "timers have a resolution of" in said, said
    assert "No such device" in said or "insmod ended with 1" in said, said
    assert said.endswith("not loaded"), said
