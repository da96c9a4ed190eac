# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make abuse` says of its sequences, `make soak` of its lanes and of memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.checks.endurance import ABUSE, SOAK, format_lanes, format_memory
from lab.checks.endurance import format_outcome, format_seconds, format_sum, read_boots
from lab.failure import UsageError
from lab.guest.scenarios import find_scenarios
from tests.kernel.scenarios.soak import Tally


def test_scenarios_exist() -> None:
    assert {ABUSE, SOAK} <= {one.name for one in find_scenarios("kernel")}


def test_operations_done_and_refused_are_counted() -> None:
    played = {"sequences": 3, "done": {"mtu": 7}, "refused": {"mtu": 1, "steer": 2}}
    said = format_outcome("", {**played, "grown_kb": 12})
    assert "3 sequences: mtu 7 (1 refused), steer 0 (2 refused)" in said
    assert said.endswith("none failed; memory taken grew by 12 kB")


def test_slowest_operations_are_told() -> None:
    said = format_seconds({"mtu": 1.2, "check": 30.0, "move": 4.0})
    assert said == "abuse: 35 s: check 30, move 4, mtu 1\n"


def test_operation_the_kernel_lacks_is_said() -> None:
    assert "starve: not offered" in format_outcome("", {"lacks": ["starve"]})
    assert "not offered" not in format_outcome("", {"lacks": []})


def test_failure_names_the_seed_to_repeat() -> None:
    assert format_outcome("lost", {"seed": 17}).endswith("seed 17: lost")
    assert format_outcome("VM lost", {}).endswith("seed None: VM lost")


def test_boots_of_a_file_add_up(tmp_path: Path) -> None:
    path = tmp_path / "abuse.json"
    assert read_boots(path) == []
    path.touch()
    assert read_boots(path) == []
    boots = [
        {"played": {"sequences": number}, "message": message}
        for number, message in ((9, ""), (3, "lost"))
    ]
    path.write_text(json.dumps(boots))
    assert read_boots(path) == boots
    assert format_sum(boots) == "abuse: 12 sequences in all 2 boots, 1 failed"


@pytest.mark.parametrize("text", ["{", "[1]", '[{"played": {}}]', '{"rows": []}'])
def test_file_of_something_else_is_not_written_over(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="other.json: not what lab abuse writes"):
        read_boots(path)


def test_lanes_line_up() -> None:
    tallies = [Tally("fq", "fq", "process", read=123456), Tally("vhost", "mq", "vhost")]
    heading, first, second = format_lanes([vars(one) for one in tallies]).splitlines()
    assert heading.startswith("lane   qdisc  reader   ")
    assert first.index("123456") + 6 == second.index(" 0 ") + 2
    assert second.endswith("None")


def test_memory_is_told_before_at_both_ends_and_after() -> None:
    sizes = (1, 2, 3, 4, 5)
    memory = [{"slab_kb": 1024 * n, "available_kb": 10240 * n} for n in sizes]
    assert format_memory(memory) == (
        "slab, MB: 1.0 before; 2.0 at the start, 4.0 at the end; 5.0 after\n"
        "available, MB: 10; 20, 40; 50"
    )
