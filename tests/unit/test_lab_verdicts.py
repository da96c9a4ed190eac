# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab calls nothing passed that failed, was lost, or was never reached."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.checks import plays, quick, testing, verify
from lab.checks.testing import Outcome
from lab.failure import FINE, NO, LabError
from lab.guest import scenarios
from lab.guest.scenarios import Env, Scenario
from lab.machines import vm
from lab.machines.matrix import kernel_named
from lab.machines.roots import Root
from lab.machines.vm import EmulatorRace, Machine, VmLost, VmNotBooted, VmResult
from tests._outcomes import assert_passed

KERNEL = kernel_named("6.12")
SCENARIO = "loading.loads_and_unloads"
PASSED = {"name": "a.b", "outcome": "passed", "message": "", "seconds": 1.0}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    root = Root("6.12", Path("/root"), "6.12.1", "linux-image 6.12.1", "key")
    made = Machine(root, tmp_path)
    given = lambda *_, **__: contextlib.nullcontext(made)  # noqa: E731
    monkeypatch.setattr(testing, "machine_for", given)
    return made


# A boot


BEGUN, VERDICT = "touch begun", """echo '{"status": %d, "reason": "x"}' >verdict.json"""


def emulate(machine: Machine, monkeypatch: pytest.MonkeyPatch, *scripts: str) -> None:
    """The next boots run these instead of QEMU, in the folder of the answers."""
    left = list(scripts)

    def command(*_: object, **__: object) -> list[str]:
        return ["sh", "-c", f"cd {machine.output}; {left.pop(0)}; #"]

    monkeypatch.setattr(vm, "_command", command)


@pytest.mark.parametrize(("scripts", "result"), [
    ([f"{BEGUN}; {VERDICT % 0}"], VmResult(0, "x")),
    ([f"{BEGUN}; {VERDICT % 1}"], VmResult(1, "x")),
    (["kill -SEGV $$", f"{BEGUN}; {VERDICT % 0}"], VmResult(0, "x")),
    ([f"echo 'BUG: bad' >console.log; {BEGUN}; {VERDICT % 0}"],
     VmResult(0, "x", ["BUG: bad"])),
])
def test_verdict_and_trouble_are_those_of_the_boot(
    machine, monkeypatch, scripts, result
) -> None:
    emulate(machine, monkeypatch, *scripts)
    assert vm.run_job(machine, {}, 60, lambda _: None) == result


@pytest.mark.parametrize(("scripts", "lost", "said"), [
    ([f"{BEGUN}; exit 1"], VmLost, "ended with status 1 without a verdict"),
    (["exit 3"] * 2, VmNotBooted, "ended with status 3"),
    ([f"{BEGUN}; exec sleep 60"], VmLost, "it was stopped after"),
    ([f"echo Kernel panic >console.log; {BEGUN}"], VmLost, "said: Kernel panic"),
])
def test_boot_without_a_verdict_is_lost_whatever_was_there_before(
    machine, monkeypatch, scripts, lost, said
) -> None:
    (machine.output / "verdict.json").write_text('{"status": 0, "reason": ""}')
    emulate(machine, monkeypatch, *scripts)
    with pytest.raises(VmLost, match=said) as caught:
        vm.run_job(machine, {}, 2, lambda _: None)
    assert caught.type is lost


OOPS = """Oops: int3: 0000 [#1] SMP NOPTI
RIP: 0010:tun_net_xmit+0x5/0x630 [tun]
Code: 90 90 f3 0f 1e fa %s <77> 56 03 00 41 57
Kernel panic - not syncing: Fatal exception in interrupt
"""


@pytest.mark.parametrize(("console", "kvm", "lost"), [
    (OOPS % "e8", False, EmulatorRace),
    (OOPS % "e8", True, VmLost),
    (OOPS % "cc", False, VmLost),  # the breakpoint is in memory
    (OOPS.replace("int3: ", "") % "e8", False, VmLost),
    ("Oops: 0000\nCode: e8 <77>\n" + OOPS % "e8", False, VmLost),  # another first
    ("Oops: int3: 0000 [#1]\nCode: Unable to access\n", False, VmLost),
])
def test_only_a_breakpoint_that_memory_lacks_is_a_race_of_the_emulator(
    machine, monkeypatch, console, kvm, lost
) -> None:
    monkeypatch.setattr(vm, "read_kvm", lambda: kvm)
    (machine.output / "told").write_text(console)
    emulate(machine, monkeypatch, f"{BEGUN}; cp told console.log")
    with pytest.raises(VmLost) as caught:
        vm.run_job(machine, {}, 60, lambda _: None)
    assert caught.type is lost


# Scenarios of a boot


def answer(machine: Machine, monkeypatch, written: dict, *ends: Any) -> list[list[str]]:
    """Each boot writes this and ends so; the names that were to be played in each."""
    asked: list[list[str]] = []

    def run_job(_: Machine, job: dict, *__: object) -> VmResult:
        asked.append(job.get("names", []))
        end = ends[len(asked) - 1]
        told = written if isinstance(end, Exception) else {"results": [PASSED]}
        (machine.output / "result.json").write_text(json.dumps(told))
        if isinstance(end, Exception):
            raise end
        return end

    monkeypatch.setattr(testing.vm, "run_job", run_job)
    return asked


@pytest.mark.parametrize(("ends", "outcome", "boots"), [
    ([EmulatorRace("int3"), VmResult(0, "")], "passed", 2),
    ([EmulatorRace("int3")] * testing.BOOTS, testing.RACED, testing.BOOTS),
    ([VmLost("panic")], "lost", 1),
])
def test_only_what_the_emulator_lost_is_played_again(
    machine, monkeypatch, ends, outcome, boots
) -> None:
    asked = answer(machine, monkeypatch, {"results": [], "running": "a.b"}, *ends)
    suite = replace(testing.KERNEL, stage=lambda *_: None)
    ended = testing.play(KERNEL, ["a.b"], lambda _: None, suite)
    assert ended.outcomes["a.b"].outcome == outcome
    assert asked == [["a.b"]] * boots
    if outcome != "passed":
        with pytest.raises(pytest.fail.Exception, match=outcome):
            assert_passed(ended, "a.b")
    with pytest.raises(pytest.fail.Exception, match="never reached"):
        assert_passed(ended, "a.c")


def test_scenario_running_when_the_vm_is_lost_is_lost(machine, monkeypatch) -> None:
    written = {"results": [PASSED], "running": "a.c"}
    answer(machine, monkeypatch, written, VmLost("panic"))
    settled, _ = testing.boot(machine, {}, 1.0, lambda _: None)
    assert [(one.name, one.outcome) for one in settled] == [
        ("a.b", "passed"), ("a.c", "lost"),
    ]
    answer(machine, monkeypatch, {}, VmResult(1, "OSError"))
    told = testing.boot(machine, {}, 1.0, print)[1]
    assert told == ["OSError"], "no scenario tells of that end"
    answer(machine, monkeypatch, {}, VmLost("no module"))
    with pytest.raises(LabError, match="no scenario ran: no module"):
        testing.boot(machine, {}, 1.0, lambda _: None)


@pytest.mark.parametrize(("outcomes", "trouble", "status", "told"), [
    (["passed", "passed"], [], FINE, "of 2 plays: 2 passed\n"),
    (["skipped", "skipped"], [], FINE, "of 2 plays: 2 skipped\n"),
    (["passed", "failed"], [], NO, "of 2 plays: 1 passed, 1 failed\n"),
    (["passed", "lost"], [], NO, "of 2 plays: 1 passed, 1 lost\n"),
    (["passed", testing.RACED], [], NO, f"of 2 plays: 1 passed, 1 {testing.RACED}\n"),
    (["passed"], [], NO, "of 2 plays: 1 passed\n"),
    (["passed", "passed"], ["BUG"], NO, "of 2 plays: 2 passed\n"),
])
def test_lab_again_is_fine_if_no_play_failed(
    tmp_path, monkeypatch, capsys, outcomes, trouble, status, told
) -> None:
    settled = [Outcome(SCENARIO, outcome, "") for outcome in outcomes]
    ended = (settled, trouble, {})
    monkeypatch.setattr(plays, "play_in_one_boot", lambda *_, **__: ended)
    path = tmp_path / "plays.json"
    assert plays.again(KERNEL, [SCENARIO], 2, path) == status
    out = capsys.readouterr().out
    assert out.endswith(told)
    assert all(f"the kernel said: {line}\n" in out for line in trouble)
    saved = json.loads(path.read_text())["scenarios"]
    assert [one["outcome"] for one in saved] == outcomes


# In the guest

Play = Callable[..., tuple[int, list[tuple[str, str]]]]
WARNING = "WARNING: CPU: 1 PID: 2 at net/core/dev.c:1"


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Plays functions as scenarios, beside which the kernel says this."""

    def run(*functions: Callable[[Env], Any], log=(), deadline: float = 60, **job: Any):
        left = iter(log)

        class Log:
            def read_new(self) -> str:
                return next(left, "")

        for name in ("reset", "forget_leaks", "ask_kernel"):
            monkeypatch.setattr(scenarios, name, lambda: None)
        monkeypatch.setattr(scenarios, "background_ping", contextlib.nullcontext)
        monkeypatch.setattr(scenarios, "KernelLog", Log)
        found = [Scenario(f"a.{one.__name__}", one, deadline) for one in functions]
        monkeypatch.setattr(scenarios, "find_scenarios", lambda _: found)
        job = {"patience": 1, "packets_divisor": 1, **job}
        job |= {"suite": "kernel", "names": [one.name for one in found]}
        written: list[dict] = []
        status, _ = scenarios.run_scenarios(job, written.append, lambda _: None)
        told = [(one["outcome"], one["message"]) for one in written[-1]["results"]]
        return status, told

    return run


def fine(env: Env) -> str:
    return "3 packets"


def wrong(env: Env) -> None:
    raise AssertionError("one was lost")


def lacking(env: Env) -> None:
    env.skip("no bridge")


def killed(env: Env) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def slow(env: Env) -> None:
    time.sleep(0.5)


def test_outcome_is_what_the_scenario_does(play) -> None:
    assert play(fine, lacking) == (0, [("passed", "3 packets"), ("skipped", "no bridge")])
    assert play(wrong, fine) == (
        1, [("failed", "AssertionError: one was lost"), ("passed", "3 packets")]
    )
    assert play(killed) == (1, [("lost", "died, status -9")])
    status, (late,) = play(slow, deadline=0.1)
    assert (status, late[0]) == (1, "lost")
    assert play(slow, deadline=0.1, patience=50)[0] == 0


def test_complaint_of_the_kernel_fails_the_scenario_it_came_in(play) -> None:
    status, told = play(fine, fine, fine, log=["all is well", WARNING, ""])
    assert (status, [one for one, _ in told]) == (1, ["passed", "failed", "passed"])
    assert told[1][1] == f"the kernel said: {WARNING}"


# What make test, check and verify answer


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


@pytest.mark.parametrize("suite", [testing.KERNEL, testing.COMMAND, testing.PACKAGING])
def test_every_scenario_is_played_somewhere(suite: testing.Suite) -> None:
    often = {one.name for one in scenarios.find_scenarios(suite.name) if one.often}
    played = [
        testing.choose_scenarios(suite, kernel, every=False)
        for kernel in suite.chosen(every=False)
    ]
    assert all(played) and set().union(*played) == often


@pytest.mark.parametrize(("lint", "proofs"), [(False, 0), (True, 1)])
def test_nothing_is_played_after_a_step_that_failed(monkeypatch, lint, proofs) -> None:
    monkeypatch.setattr(testing.quick, "lint", lambda **_: lint)
    monkeypatch.setattr(testing.verify, "verify", lambda **_: proofs)
    monkeypatch.setattr(testing.processes, "run", lambda *_, **__: pytest.fail("played"))
    for name in ("ensure_venv", "ensure_promtool"):
        monkeypatch.setattr(testing, name, lambda: Path("/venv/python"))
    assert testing.test("long", []) == 1


def test_one_complaint_fails_the_lane(capsys) -> None:
    assert [quick.run_tool(*words.split()) for words in ("true", "false")] == [
        "", "failed",
    ]
    assert quick.run_steps({"one": lambda: ""})
    assert not quick.run_steps({"one": lambda: "line 3: wrong", "two": lambda: ""})
    assert "failed  one" in capsys.readouterr().out


def test_proof_that_answers_something_else_is_not_as_expected() -> None:
    def ask(answer: str) -> tuple[bool, str]:
        return verify.ask(verify.Proof("a", verify.FINE, lambda: (answer, "why")))

    assert ask(verify.FINE)[0]
    for answer in (verify.FOUND, "no verdict", "incomplete", ""):
        good, line = ask(answer)
        assert not good and f"{answer} NOT {verify.FINE}" in line
