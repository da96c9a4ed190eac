# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make soak` says of its lanes and of memory."""

from __future__ import annotations

from lab.checks.soak import SCENARIO, format_lanes, format_memory
from lab.guest.scenarios import find_scenarios
from tests.kernel.scenarios.soak import Tally


def test_scenario_exists() -> None:
    assert SCENARIO in [one.name for one in find_scenarios("kernel")]


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
