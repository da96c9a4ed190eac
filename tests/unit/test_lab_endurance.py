# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make abuse` says of its sequences, `make soak` of its lanes and of memory."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from lab.checks import endurance
from lab.checks.endurance import ABUSE, SOAK, format_lanes, format_memory
from lab.checks.endurance import format_sequences
from lab.checks.testing import Outcome
from lab.failure import FINE, LabError, NO
from lab.guest.scenarios import find_scenarios
from lab.machines.matrix import kernel_named
from lab.machines.roots import Root
from lab.machines.vm import Machine
from tests.kernel.scenarios.soak import Tally
from tests.unit.test_lab_bench import PROVENANCE

ANSWER = {
    "seed": 17,
    "sequences": 3,
    "done": {"mtu": 7},
    "refused": {"mtu": 1, "steer": 2},
    "seconds": {"mtu": 1.2, "check": 30.0, "move": 4.0},
    "lacks": ["starve"],
}


def test_scenarios_exist() -> None:
    assert {ABUSE, SOAK} <= {one.name for one in find_scenarios("kernel")}


def test_operations_are_counted_and_the_seed_is_told() -> None:
    assert format_sequences(ANSWER).splitlines() == [
        "abuse: 3 sequences: mtu 7 (1 refused), steer 0 (2 refused)",
        "abuse: 35 s: check 30, move 4, mtu 1",
        "abuse: starve: not offered by this kernel",
        "abuse: last seed 17, which repeats it if it failed",
    ]
    grown = format_sequences({**ANSWER, "grown_kb": 12})
    assert grown.endswith("\nabuse: memory taken grew by 12 kB")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One in which a scenario passes without a word; its answer is to be written."""
    root = Root("6.12", tmp_path, "6.12.1", "linux-image 6.12.1", "key")
    machine = Machine(root, tmp_path)
    settled = [Outcome(ABUSE, "passed", "")]
    monkeypatch.setattr(endurance, "machine_for", lambda _: nullcontext(machine))
    monkeypatch.setattr(endurance, "play_on", lambda *_, **__: (settled, []))
    monkeypatch.setattr(endurance, "read_provenance", lambda *_: PROVENANCE)
    return machine


def test_answer_is_saved_and_told(machine: Machine, monkeypatch, capsys) -> None:
    (machine.output / "abuse.json").write_text(json.dumps(ANSWER))
    path = machine.output / "new" / "saved.json"
    assert endurance.abuse(kernel_named("6.12"), 15, 3, path) == FINE
    saved = json.loads(path.read_text())
    assert saved["seed"] == 17 and saved["message"] == ""
    assert saved["provenance"]["boot_id"] == "one"
    told = capsys.readouterr().out
    assert "abuse: passed: " in told and f"saved in {path}" in told
    settled = [Outcome(ABUSE, "failed", "one lost")]
    monkeypatch.setattr(endurance, "play_on", lambda *_, **__: (settled, ["BUG: x"]))
    assert endurance.abuse(kernel_named("6.12"), 15, 3, path) == NO
    assert "abuse: failed: one lost; BUG: x" in capsys.readouterr().out


def test_boot_without_an_answer_is_an_error(machine: Machine) -> None:
    with pytest.raises(LabError, match="soak: no result"):
        endurance.soak(kernel_named("6.12"), 1.0, None)


def test_lanes_line_up() -> None:
    tallies = [Tally("fq", "fq", "process", read=123456), Tally("vhost", "mq", "vhost")]
    lines = format_lanes([vars(one) for one in tallies]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split() == ["name", "fq", "vhost"]
    assert ["read", "123456", "0"] in [line.split() for line in lines]


def test_memory_is_told_before_at_both_ends_and_after() -> None:
    sizes = (1, 2, 3, 4, 5)
    memory = [{"slab_kb": 1024 * n, "available_kb": 10240 * n} for n in sizes]
    assert format_memory(memory).endswith("1.0 (10), 2.0 (20), 4.0 (40), 5.0 (50)")
