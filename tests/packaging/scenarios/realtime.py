# SPDX-License-Identifier: GPL-2.0-or-later
"""The packages on a kernel that sluice refuses for good: PREEMPT_RT.

Played where systemd is the first process: see tests/packaging/test_under_systemd.py.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._traffic import assert_flows, sink
from tests.packaging.scenarios._machine import apt_install, run
from tests.systemd.scenarios._machine import read_state

MODULES_LOAD = Path("/etc/modules-load.d/sluice.conf")


@scenario(deadline=1200, often=False)
def packages_are_installed_and_the_boot_is_not_degraded(env: Env) -> None:
    if "PREEMPT_RT" not in os.uname().version:
        env.skip("this kernel is not PREEMPT_RT")
    assert read_state() == "running", run("systemctl", "--failed").said
    apt_install(env)
    env.defer(lambda: MODULES_LOAD.unlink(missing_ok=True))
    MODULES_LOAD.write_text("sluice\n")
    for unit in ("systemd-modules-load", "sluice"):
        env.run("systemctl", "restart", unit)
    assert read_state() == "running", run("systemctl", "--failed").said
    assert not os.path.exists("/sys/module/sluice"), "the module is loaded"
    assert "PREEMPT_RT: the headroom cannot be bounded" in env.run("dmesg")
    sink(env, ring=100)
    said = run("sluice", "doctor")
    assert said.status == 3, said
    text = " ".join(said.said.split())  # it wraps its lines
    assert "is PREEMPT_RT, where the headroom cannot be bounded" in text, said
    said = run("sluice", "status")
    assert "PREEMPT_RT" in said.said, said
    assert_flows(env)
