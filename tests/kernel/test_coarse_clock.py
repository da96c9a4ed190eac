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


def play(output: Path, cmdline: str) -> str:
    root = ensure_root(kernel_named("6.12"))
    build.stage(root, output)
    said: list[str] = []
    machine = vm.Machine(root, output, cmdline=cmdline)
    job = {"kind": "command", "argv": ["sh", "-c", COMMAND]}
    result = vm.run_job(machine, job, 600, said.append)
    assert not result.trouble, result.trouble
    return "\n".join(said)


def test_coarse_timers_are_refused_with_the_reason(tmp_path: Path) -> None:
    said = play(tmp_path, "highres=off")
    assert "timers have a resolution of" in said, said
    assert "No such device" in said or "insmod ended with 1" in said, said
    assert said.endswith("not loaded"), said


def test_fine_timers_are_not_refused(tmp_path: Path) -> None:
    assert play(tmp_path, "").endswith("\nloaded")
