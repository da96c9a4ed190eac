# SPDX-License-Identifier: GPL-2.0-or-later
"""Loading and unloading, with nothing else going on."""

from __future__ import annotations

import os

from lab.guest.debug import finds_leaks, forget_leaks, read_leaks
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._tap import tap


@scenario
def loads_and_unloads(env: Env) -> None:
    env.load()
    assert os.path.exists("/sys/module/sluice")
    env.run("rmmod", "sluice")
    assert not os.path.exists("/sys/module/sluice")


@scenario
def unloading_leaves_no_memory(env: Env) -> None:
    """With the hook placed: its filter was left behind once."""
    if not finds_leaks():
        env.skip("kmemleak: not in this kernel; make debug has some with it")
    forget_leaks()
    for _ in range(3):
        env.load()
        with tap():
            env.run("rmmod", "sluice")
    leaks = read_leaks()
    assert not leaks, leaks
