# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lab again` and `lab test` run, and what they make of its end."""

from __future__ import annotations

import json
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from lab.checks import slowest, testing
from lab.checks.testing import Outcome
from lab.failure import FINE, LabError, NO, UsageError
from lab.guest.scenarios import Scenario
from lab.machines.matrix import NATIVE, NEWEST, kernel_named
from lab.machines.roots import Root
from lab.machines.vm import Machine, VmResult

KERNEL = kernel_named("6.12")
SCENARIO = "loading.loads_and_unloads"


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    root = Root("6.12", Path("/root"), "6.12.1", "linux-image 6.12.1", "key")
    machine = Machine(root, tmp_path)
    monkeypatch.setattr(testing, "machine_for", lambda *_, **__: nullcontext(machine))
    return machine


@pytest.mark.parametrize(
    ("outcomes", "trouble", "status", "told"),
    [
        (["passed", "passed"], [], FINE, "2 of 2 plays passed\n"),
        (["skipped", "skipped"], [], FINE, "0 of 2 plays passed, 2 skipped\n"),
        (["passed", "failed"], [], NO, "1 of 2 plays passed\n"),
        (["passed"], [], NO, "1 of 2 plays passed\n"),
        (["passed", "passed"], ["BUG"], NO, "passed\nthe kernel said: BUG\n"),
    ],
)
def test_again_is_fine_if_no_play_failed(
    machine, monkeypatch, capsys, outcomes, trouble, status, told
) -> None:
    settled = [Outcome(SCENARIO, outcome, "") for outcome in outcomes]
    jobs = []

    def play_on(*positional, **job):
        jobs.append((positional[2], job["times"]))
        return settled, trouble

    monkeypatch.setattr(testing, "play_on", play_on)
    assert testing.again(KERNEL, [SCENARIO], 2) == status
    assert capsys.readouterr().out.endswith(told)
    assert jobs == [([SCENARIO], 2)]


def test_again_saves_what_the_plays_said(machine, monkeypatch, tmp_path) -> None:
    path = tmp_path / "plays.json"
    settled = [Outcome(SCENARIO, "passed", said) for said in ("one", "two")]
    monkeypatch.setattr(testing, "play_on", lambda *_, **__: (settled, []))
    (tmp_path / "qemu.json").write_text('["true"]')
    (tmp_path / "result.json").write_text('{"boot_id": "1"}')
    assert testing.again(KERNEL, [SCENARIO], 2, path) == FINE
    saved = json.loads(path.read_text())
    assert saved["plays"] == {SCENARIO: ["one", "two"]}
    assert saved["provenance"]["kernel"] == "6.12"


@pytest.mark.parametrize("name", ["loading", "loading.nothing", "nothing.loads"])
def test_again_wants_a_scenario_that_exists(machine, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: no kernel scenario"):
        testing.again(KERNEL, [name], 1)


def test_boot_without_any_outcome_is_an_error(machine, monkeypatch) -> None:
    monkeypatch.setattr(testing.vm, "run_job", lambda *_: VmResult(1, "no module"))
    with pytest.raises(LabError, match="no scenario ran: no module"):
        testing.boot(machine, {}, 1.0, print)


def test_each_scenario_across_boots_has_its_own(machine, monkeypatch) -> None:
    booted: list[list[str]] = []

    def play_on(machine, kernel, names, *_):
        booted.append(names)
        return [Outcome(names[0], "passed", "")], [f"trouble of {names[0]}"]

    monkeypatch.setattr(testing, "play_on", play_on)
    played = testing.play_across_boots(KERNEL, ["a.x", "a.y"], print, testing.PACKAGING)
    assert booted == [["a.x"], ["a.y"]] and list(played.outcomes) == ["a.x", "a.y"]
    assert played.trouble == ["trouble of a.x", "trouble of a.y"]


def test_slow_kernel_has_more_time_and_fewer_packets(machine, monkeypatch) -> None:
    deadlines: list[float] = []
    divisors: list[int] = []
    suite = testing.Suite("kernel", (), (), seconds=10, stage=lambda *_: None)

    def boot(machine, job, deadline, progress) -> None:
        deadlines.append(deadline)
        divisors.append(job["packets_divisor"])

    monkeypatch.setattr(testing, "boot", boot)
    for name in ("6.12", "newest-debug"):
        testing.play_on(machine, kernel_named(name), ["a.x", "a.y"], print, suite)
    patience = kernel_named("newest-debug").patience
    assert patience > 1
    assert deadlines == [testing.BOOT_SECONDS + 20, patience * deadlines[0]]
    assert divisors == [1, patience * patience]


STEPS = ("lint", "verify")


@pytest.fixture
def steps(monkeypatch) -> dict[str, object]:
    """What each step of `lab test` answers; afterwards "ran" has those that ran."""
    ran: list[str] = []
    answers: dict[str, object] = {"lint": True, "verify": 0, "ran": ran}

    def step(name: str):
        def run(**how):
            ran.append(name)
            answers["short"] = how.get("short", answers.get("short"))
            return answers[name]

        return run

    monkeypatch.setattr(testing.quick, "lint", step("lint"))
    monkeypatch.setattr(testing.verify, "verify", step("verify"))
    monkeypatch.setattr(testing, "ensure_venv", lambda: Path("/venv/python"))
    monkeypatch.setattr(testing, "ensure_promtool", lambda: None)
    answers["native"] = False
    monkeypatch.setattr(testing, "has_root", lambda _: answers["native"])
    root = Root("6.12", Path("/root"), "6.12.1", "linux-image 6.12.1", "key")
    roots: list[tuple[str, testing.Suite]] = []
    answers["roots"] = roots

    def scenario_root(kernel, suite=testing.KERNEL) -> Root:
        roots.append((kernel.name, suite))
        return root

    monkeypatch.setattr(testing, "scenario_root", scenario_root)
    monkeypatch.setattr(testing, "ensure_disk", lambda _: None)
    built: list[str] = []
    answers["built"] = built
    for name in ("ensure_packages", "ensure_compiled"):
        monkeypatch.setattr(
            testing.packages, name, lambda *_, name=name: built.append(name)
        )

    def run(command, cwd) -> subprocess.CompletedProcess:
        told = [word for word in command if "tests/" in word or word[0] == "-"]
        ran.append(" ".join(told))
        return subprocess.CompletedProcess(command, 5)

    monkeypatch.setattr(testing.processes, "run", run)
    return answers


@pytest.mark.parametrize("fails", STEPS)
def test_nothing_is_played_after_a_step_that_failed(steps, fails: str) -> None:
    steps[fails] = False if fails == "lint" else 1
    assert testing.test("long", []) == 1
    assert steps["ran"] == list(STEPS[: STEPS.index(fails) + 1])


def words(steps) -> list[str]:
    """What pytest was told, without what is the same each time."""
    return steps["ran"][-1].removeprefix("-B -m -p ").removesuffix(" --times").split()


@pytest.mark.parametrize("native", [False, True])
def test_make_test_and_make_test_more_do_each_step_once(steps, native: bool) -> None:
    steps["native"] = native
    on = ["--native"] * native
    assert testing.test("short", []) == 5
    assert steps["ran"][:-1] == ["lint", "verify"] and steps["short"] is True
    told = ["tests/unit", "tests/kernel/test_scenarios.py", "--part", *on]
    assert words(steps) == told
    fast = NATIVE.name if native else NEWEST
    assert {name for name, _ in steps["roots"]} == {fast, "5.10"}
    assert not steps["built"]
    steps["ran"].clear()
    assert testing.test("more", []) == 5
    assert steps["ran"][:-1] == []
    told = ["tests/kernel", "tests/command", "tests/packaging", "--part", *on]
    assert words(steps) == told
    assert steps["built"] == ["ensure_packages", "ensure_compiled"]


def test_other_targets_play_their_folder_and_all_of_them_everything(steps) -> None:
    assert testing.test("debug", []) == 5
    assert words(steps) == ["tests/debug", "--every"] and len(steps["ran"]) == 1
    assert not steps["built"]
    assert testing.test("long", []) == 5
    assert steps["short"] is False and steps["ran"][1:3] == [*STEPS]


@pytest.mark.parametrize("native", [False, True])
def test_the_parts_play_nothing_twice_and_leave_nothing_out(native: bool) -> None:
    def pairs(part: str) -> list[tuple[str, str]]:
        found = testing.plays(testing.KERNEL, part, native)
        return [(kernel.name, name) for kernel, names in found.items() for name in names]

    short, more, often = map(pairs, ("short", "more", "often"))
    assert len({*short, *more}) == len(short) + len(more)
    assert {*often} <= {*short, *more} and more
    assert ("5.10", "full_ring.full_ring_stops_queue") in short
    missing = [one for one in testing.CONTRACT if not testing.among((one,))]
    assert not missing, "no such scenario, or it is not played often"


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("short", ("make test-more", "make test-all")),
        ("more", ("make test", "make test-all")),
    ],
)
def test_what_is_left_out_is_named(part: str, told: tuple[str, ...]) -> None:
    lines = testing.left_out(part, native=False)
    assert tuple(line.partition(":")[0] for line in lines) == told


def test_slowest_come_first_and_another_process_goes_on(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(slowest, "taken", [(float(n), f"step {n}") for n in range(30)])
    slowest.write(tmp_path / "times")
    monkeypatch.setattr(slowest, "taken", [(99.0, "mine")])
    slowest.read(tmp_path / "times")
    lines = [line.split() for line in slowest.format_slowest()]
    assert lines[0] == ["99", "s", "mine"] and lines[1] == ["29", "s", "step", "29"]
    assert len(lines) == slowest.MOST


@pytest.mark.parametrize(
    ("what", "suite", "every"),
    [
        ("kernel", testing.KERNEL, False),
        ("command", testing.COMMAND, False),
        ("packaging", testing.PACKAGING, False),
        ("systemd", testing.SYSTEMD, True),
        ("debug", testing.DEBUGGED, True),
    ],
)
def test_root_of_each_kernel_that_is_played_is_built_first(
    steps, what: str, suite: testing.Suite, every: bool
) -> None:
    assert testing.test(what, []) == 5
    wanted = {kernel.name for kernel in suite.chosen(every)}
    if suite is testing.KERNEL:
        wanted.add("6.1")  # for test_module.py
    assert sorted(name for name, _ in steps["roots"]) == sorted(wanted)
    assert {asked for _, asked in steps["roots"]} == {suite}


def test_kernel_of_few_scenarios_plays_only_those(monkeypatch) -> None:
    found = [Scenario("loading.one", print), Scenario("queues.two", print)]
    monkeypatch.setattr(testing, "find_scenarios", lambda _: found)
    few = replace(KERNEL, only=("queues",))
    assert testing.choose_scenarios(testing.KERNEL, few, every=True) == ["queues.two"]


def test_machine_has_what_its_suite_asks_for(monkeypatch, tmp_path) -> None:
    asked: list[tuple[str, ...]] = []

    def ensure_root(kernel, packages) -> Root:
        asked.append(packages)
        return Root(kernel.name, tmp_path, "6.12.1", "linux-image 6.12.1", "key")

    monkeypatch.setattr(testing, "ensure_root", ensure_root)
    monkeypatch.setattr(testing, "ensure_disk", lambda _: Path("/root.ext4"))
    monkeypatch.setattr(testing, "make_empty", lambda path: path.touch())
    plain = replace(KERNEL, applications=False)
    with testing.machine_for(plain) as one:
        assert (one.disk, one.changes, one.memory_mb) == (None, None, plain.memory_mb)
    with testing.machine_for(plain, keeps=True) as one:
        assert one.disk and one.changes and one.changes.exists()
    assert not one.changes.exists(), "each has a folder of its own"
    with testing.machine_for(replace(KERNEL, applications=True)):
        pass
    with testing.machine_for(plain, testing.SYSTEMD) as one:
        assert (one.disk, one.cmdline) == (None, "lab.systemd")
    with testing.machine_for(plain, testing.PACKAGING) as one:
        assert (one.disk, one.changes) == (Path("/root.ext4"), None)
    of_applications, of_systemd, of_packaging = asked[2:]
    assert asked[:2] == [(), ()] and of_applications == testing.PACKAGES
    assert of_systemd == testing.COMMAND.extra and "dkms" in of_packaging
