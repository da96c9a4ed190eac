# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make abuse` says of its sequences."""

from __future__ import annotations

from lab.abuse import SCENARIO, format_outcome, format_seconds
from lab.testing import read_scenarios


def test_scenario_exists() -> None:
    assert SCENARIO in read_scenarios()


def test_operations_done_and_refused_are_counted() -> None:
    played = {"sequences": 3, "done": {"mtu": 7}, "refused": {"mtu": 1, "steer": 2}}
    said = format_outcome("", {**played, "grown_kb": 12})
    assert "3 sequences: mtu 7 (1 refused), steer 0 (2 refused)" in said
    assert said.endswith("none failed; slabs grew by 12 kB")


def test_slowest_operations_are_told() -> None:
    said = format_seconds({"mtu": 1.2, "check": 30.0, "move": 4.0})
    assert said == "abuse: 35 s: check 30, move 4, mtu 1\n"


def test_operation_the_kernel_lacks_is_said() -> None:
    assert "starve: not offered" in format_outcome("", {"lacks": ["starve"]})
    assert "not offered" not in format_outcome("", {"lacks": []})


def test_failure_names_the_seed_to_repeat() -> None:
    assert format_outcome("lost", {"seed": 17}).endswith("seed 17: lost")
    assert format_outcome("VM lost", {}).endswith("seed None: VM lost")
