# SPDX-License-Identifier: GPL-2.0-or-later
"""A debug kernel notices what it is for, and then the run fails."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lab.checks import testing
from lab.machines import build
from lab.machines.chroot import Root
from lab.machines.matrix import DEBUG

SPLAT = Path(__file__).with_name("splat")
# By configuration: the scenario, and a pattern of the trouble it ends with. Some
# machines print where a warning comes from before what it says.
NOTICED = {
    "debug": {
        "locks_in_either_order": "possible circular locking dependency",
        "sleep_in_the_wrong_context": "BUG: sleeping function called",
        "armed_timer_is_freed": "ODEBUG: free active|at debug_print_object",
        "freed_memory_is_read": "BUG: KASAN: slab-use-after-free",
    },
    "kcsan": {"count_on_two_cpus_without_lock": "KCSAN: data-race"},
}


def stage(root: Root, output: Path) -> None:
    """The guest has splat.ko beside sluice.ko."""
    build.stage(root, output)
    shutil.copy(build.build_module(root, SPLAT), output)


SUITE = testing.Suite("debug", kernels=DEBUG, often=(), stage=stage)


def test_splat_fails_its_scenario(kernel, played) -> None:
    outcomes = played(kernel).outcomes
    (watching,) = NOTICED.keys() & set(kernel.configs)
    for name, noticed in NOTICED[watching].items():
        one = outcomes[f"splats.{name}"]
        assert one.outcome == "failed" and re.search(noticed, one.message), one


def test_leak_and_blind_lockdep_fail_the_run(kernel, played) -> None:
    if "debug" not in kernel.configs:
        pytest.skip(f"kernel {kernel.name}: has neither kmemleak nor lockdep")
    trouble = played(kernel).trouble
    assert any("unreferenced object" in line for line in trouble), trouble
    assert any("lockdep has stopped watching" in line for line in trouble), trouble
