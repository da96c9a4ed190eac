# SPDX-License-Identifier: GPL-2.0-or-later
"""How a scenario is judged: by what it raises, by its deadline, by the kernel's log."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.guest import scenarios
from lab.guest.scenarios import Env, KernelLog, Scenario, run_scenarios

Play = Callable[..., Any]
WARNING = "WARNING: CPU: 1 PID: 2 at net/core/dev.c:1"


class Log:
    """What the kernel says while each of the scenarios is played."""

    def __init__(self) -> None:
        self.next: list[str] = []
        self.asked: list[str] = []

    def read_new(self) -> str:
        return self.next.pop(0) if self.next else ""


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def play(monkeypatch, log: Log) -> Play:
    """Plays functions as scenarios; the status, and the last report. What is asked of
    the kernel besides is in log.asked."""
    for name in ("reset", "forget_leaks", "ask_kernel"):
        monkeypatch.setattr(scenarios, name, lambda name=name: log.asked.append(name))
    monkeypatch.setattr(scenarios, "background_ping", contextlib.nullcontext)
    monkeypatch.setattr(scenarios, "KernelLog", lambda: log)

    def run(*functions, deadline: float = 60, reports: Any = None, **job: Any):
        found = [Scenario(f"a.{one.__name__}", one, deadline) for one in functions]
        monkeypatch.setattr(scenarios, "find_scenarios", lambda suite: found)
        usual = {"patience": 1, "packets_divisor": 1}
        job = {"suite": "kernel", **usual, **job}
        job.setdefault("names", [one.name for one in found])
        written: list[dict] = [] if reports is None else reports
        status, _ = run_scenarios(
            job, lambda report: written.append({**report}), lambda _: None
        )
        results = written[-1]["results"]
        return status, [(one["outcome"], one["message"]) for one in results]

    return run


def fine(env: Env) -> None:
    pass


def counted(env: Env) -> str:
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
    assert play(fine, counted) == (0, [("passed", ""), ("passed", "3 packets")])
    assert play(wrong, fine) == (
        1, [("failed", "AssertionError: one was lost"), ("passed", "")]
    )
    assert play(killed) == (1, [("lost", "died, status -9")])


def test_what_the_kernel_lacks_is_no_failure(play) -> None:
    assert play(lacking) == (0, [("skipped", "no bridge")])


def test_slow_kernel_has_more_time(play) -> None:
    status, (late,) = play(slow, deadline=0.1)
    assert (status, late[0]) == (1, "lost") and "no answer within" in late[1]
    assert play(slow, deadline=0.1, patience=50) == (0, [("passed", "")])


def sends(env: Env) -> str:
    return f"{env.fewer(100)} packets"


def test_slow_kernel_has_fewer_packets(play) -> None:
    assert play(sends) == (0, [("passed", "100 packets")])
    assert play(sends, packets_divisor=25) == (0, [("passed", "4 packets")])


def test_complaint_of_the_kernel_fails_the_scenario_it_came_in(play, log) -> None:
    log.next = ["all is well", WARNING, ""]
    told = ("failed", f"the kernel said: {WARNING}")
    assert play(fine, counted, fine) == (1, [("passed", ""), told, ("passed", "")])


def test_kernel_is_set_back_after_each_and_asked_for_leaks(play, log) -> None:
    play(fine, killed)
    assert log.asked == ["forget_leaks", "reset", "reset", "ask_kernel"]


def test_report_names_the_one_that_runs(play) -> None:
    reports: list[dict] = []
    play(fine, wrong, reports=reports)
    assert [one["running"] for one in reports] == ["a.fine", None, "a.wrong", None]


def test_only_what_is_named_is_played_and_as_often_as_asked(play) -> None:
    _, played = play(fine, counted, names=["a.counted"], times=3)
    assert played == [("passed", "3 packets")] * 3


def test_deferred_is_done_in_reverse_whatever_the_end(play, tmp_path: Path) -> None:
    done = tmp_path / "done"

    def note(word: str) -> None:
        with open(done, "a") as file:
            file.write(word)

    @contextlib.contextmanager
    def second():
        try:
            yield "2"
        finally:
            note("2")

    def fails(env: Env) -> None:
        env.defer(note, "first")
        assert env.enter(second()) == "2"
        raise OSError("x")

    def cleans_up(env: Env) -> None:
        env.defer(note, "once")
        env.clean_up()
        note(".")

    assert play(fails, cleans_up)[1][0] == ("failed", "OSError: x")
    assert done.read_text() == "2firstonce."


def test_what_was_left_behind_is_removed_and_lo_stays(monkeypatch, capsys) -> None:
    there = {"/run/netns": ["red"], "/sys/class/net": ["here0", "lo"]}
    commands: list[str] = []

    def run(argv: list[str], check: bool) -> None:
        commands.append(" ".join(argv))
        if argv[0] == "ip":
            raise OSError(22, "Invalid argument")

    with monkeypatch.context() as patch:
        patch.setattr(scenarios.os, "listdir", there.get)
        patch.setattr(scenarios.os.path, "isdir", there.__contains__)
        patch.setattr(scenarios.os.path, "exists", "/sys/module/sluice".__eq__)
        patch.setattr(scenarios.subprocess, "run", run)
        scenarios.reset()
    assert commands == ["ip netns del red", "ip link del here0", "rmmod sluice"]
    assert "ip netns del red: [Errno 22]" in capsys.readouterr().err


def test_waiting_names_what_did_not_come() -> None:
    env = Env(patience=2)
    answers = iter([0, 0, 7])
    assert env.wait_for(lambda: next(answers), "a seven") == 7
    started = time.monotonic()
    with pytest.raises(AssertionError, match="a bus"):
        env.wait_for(lambda: False, "a bus", seconds=0.1)
    assert time.monotonic() - started >= 0.2, "patience counts"


def test_command_that_fails_is_quoted() -> None:
    env = Env()
    assert env.run("echo", "yes").strip() == "yes"
    with pytest.raises(AssertionError, match="no such thing"):
        env.run("sh", "-c", "echo no such thing >&2; exit 1")


def test_log_of_the_kernel_is_read_from_where_it_was(monkeypatch) -> None:
    kernel, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    with kernel, ours, monkeypatch.context() as patch:
        patch.setattr(scenarios.os, "open", lambda *_: ours.fileno())
        patch.setattr(scenarios.os, "lseek", lambda *_: 0)
        log = KernelLog()
        kernel.send(b"4,1,2,-;" + WARNING.encode() + b"\n SUBSYSTEM=net\n")
        kernel.send(b"6,2,3,c;here0: up\n")
        assert log.read_new() == f"{WARNING}\nhere0: up"
        assert log.read_new() == ""
