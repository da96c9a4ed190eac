# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of which a part that sluice needs is switched off until the next boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.machines import build, vm
from lab.machines.matrix import kernel_named
from lab.machines.roots import ensure_root


def play(folder: Path, *argv: str, cmdline: str = "") -> tuple[int, list[str]]:
    """The status of a command in a guest with the module, and what it says."""
    root = ensure_root(kernel_named("6.12"))
    build.stage(root, folder)
    said: list[str] = []
    machine = vm.Machine(root, folder, cmdline=cmdline)
    job = {"kind": "command", "argv": list(argv)}
    result = vm.run_job(machine, job, 600, said.append)
    assert not result.trouble, (said, result.trouble)
    return result.status, said


# What modprobe and systemd-modules-load see is the exit status of insmod.
COMMAND = """
modprobe tun
insmod /out/sluice.ko
echo "insmod ended with $?"
dmesg | grep sluice:
lsmod | grep -q '^sluice ' && echo loaded || echo not loaded
"""


def test_coarse_timers_are_refused_with_the_reason(tmp_path: Path) -> None:
    """Without high-resolution timers a ring drains long before a review: no load."""
    _, lines = play(tmp_path, "sh", "-c", COMMAND, cmdline="highres=off")
    said = "\n".join(lines)
    assert "timers have a resolution of" in said, said
    assert "No such device" in said or "insmod ended with 1" in said, said
    assert said.endswith("not loaded"), said


# What the guest is left with: a process that waits in rmmod until the next boot.
PROGRAM = """
import os, subprocess, sys
from lab.guest.scenarios import Env
from tests.kernel.scenarios._ftrace import mount_tracefs, settles_on_direct_call
from tests.kernel.scenarios._tap import tap
from tests.kernel.scenarios._traffic import counters, read_queue, send

env = Env()
mount_tracefs()
env.run("modprobe", "tun")
env.run("insmod", "/out/sluice.ko", f"direct_call={sys.argv[1]}", "stall_ms=60000")
with tap(ring=100) as device:
    print("direct call:", settles_on_direct_call(env))
    send(200)
    assert read_queue().state == "stopped", read_queue()
    env.run("insmod", "/out/kill_ftrace.ko")
    rmmod = subprocess.Popen(["rmmod", "sluice"])
    env.wait_for(lambda: "ftrace has shut down" in env.run("dmesg"), "a line", 60)
    device.read_all()
    lost, read = counters().lost_at_ring, device.read_count
    send(400)
    while not device.is_drained(counters):
        pass
    assert counters().lost_at_ring > lost, "not as without sluice"
    assert device.read_count >= read + 100, (read, device.read_count)
    assert rmmod.poll() is None, "rmmod has ended"
    print("loaded:", os.path.exists("/sys/module/sluice"))
"""


@pytest.mark.parametrize("direct", (1, 0))
def test_unload_waits_and_the_driver_goes_on_if_ftrace_is_shut_down(
    tmp_path: Path, pytestconfig: pytest.Config, direct: int
) -> None:
    """The hook cannot be removed: sluice stays loaded."""
    if not direct and not pytestconfig.getoption("--every"):
        pytest.skip("without a direct call: make test-all plays it")
    status, said = play(tmp_path, "python3", "-B", "-c", PROGRAM, str(direct))
    assert status == 0, said
    assert said[-2:] == [f"direct call: {bool(direct)}", "loaded: True"], said
