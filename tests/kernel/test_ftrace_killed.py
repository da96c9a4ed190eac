# SPDX-License-Identifier: GPL-2.0-or-later
"""Where ftrace has shut itself down the hook cannot be removed: sluice stays loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.machines import build, vm
from lab.machines.matrix import kernel_named
from lab.machines.roots import ensure_root

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
def test_unload_waits_and_the_driver_goes_on(
    tmp_path: Path, pytestconfig: pytest.Config, direct: int
) -> None:
    if not direct and not pytestconfig.getoption("--every"):
        pytest.skip("without a direct call: make test-all plays it")
    root = ensure_root(kernel_named("6.12"))
    build.stage(root, tmp_path)
    said: list[str] = []
    argv = ["python3", "-B", "-c", PROGRAM, str(direct)]
    result = vm.run_job(
        vm.Machine(root, tmp_path), {"kind": "command", "argv": argv}, 600, said.append
    )
    assert result.status == 0 and not result.trouble, (said, result.trouble)
    assert said[-2:] == [f"direct call: {bool(direct)}", "loaded: True"], said
