# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: the kernel scenarios, each in a process with a deadline.

A scenario is a function with this decorator in tests/SUITE/scenarios/*.py,
named by its outcome, that takes an Env and raises when the outcome is not so.
What it returns, if anything, is shown beside its name:

    @scenario
    def full_ring_stops_queue(env: Env) -> None: ...
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.failure import Skipped, WorkloadError
from lab.guest.child import Ending, run_child
from lab.guest.debug import ask_kernel, forget_leaks
from lab.guest.devices import run_tool, wait_until
from lab.guest.env import GuestEnv
from lab.guest.rows import Report, Say, background_ping, unload
from lab.trouble import parse_trouble

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True)
class Env(GuestEnv):
    """What a scenario works with; what it defers is done at its end."""

    patience: int = 1  # factor for deadlines: more on a slow kernel
    packets_divisor: int = 1  # see fewer()
    _deferred: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def defer(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Undo an action at the end of the scenario; last in, first out."""
        self._deferred.callback(action, *arguments)

    def clean_up(self) -> None:
        self._deferred.close()

    def enter(self, context: Any) -> Any:
        return self._deferred.enter_context(context)

    def run(self, *argv: str) -> str:
        """A command's output; AssertionError with what it said if it fails."""
        try:
            return run_tool(argv)
        except WorkloadError as error:
            raise AssertionError(str(error)) from None

    def load(self, *parameters: str) -> None:
        self.run("insmod", str(self.module), *parameters)
        self.defer(unload)

    def skip(self, lacks: str) -> None:
        raise Skipped(lacks)

    def fewer(self, packets: int) -> int:
        """So many packets on most kernels; fewer on a slow one, and fewest on one that
        watches itself, which reports what is wrong the first time.

        Not for packets that show that senders go on: so many a socket or a qdisc must
        not be able to hold.
        """
        return packets // self.packets_divisor

    def wait_for(
        self, condition: Callable[[], Any], what: str, seconds: float = 10.0
    ) -> Any:
        """Wait until the condition holds; its value."""
        seconds *= self.patience
        return wait_until(condition, what, seconds, error=AssertionError)


@dataclass(frozen=True)
class Scenario:
    name: str  # MODULE.FUNCTION
    function: Callable[[Env], str | None]
    deadline: float = DEADLINE_SECONDS
    often: bool = True  # make test-more plays it; if not, only make test-all
    on: str = ""  # the one kernel where that plays it; if none, on all of its suite


_found: dict[str, list[Scenario]] = {}  # by module


def scenario(function: Any = None, **marks: Any) -> Any:
    """Marks a scenario; marks: fields of Scenario, as in @scenario(deadline=300)."""

    def mark(marked: Callable[[Env], Any]) -> Callable[[Env], Any]:
        module = marked.__module__
        name = f"{module.rpartition('.')[2]}.{marked.__name__}"
        _found.setdefault(module, []).append(Scenario(name, marked, **marks))
        return marked

    return mark(function) if function is not None else mark


def find_scenarios(suite: str) -> list[Scenario]:
    """Those of tests/SUITE/scenarios, in the order of their files."""
    found: list[Scenario] = []
    for path in sorted((REPOSITORY / "tests" / suite / "scenarios").glob("[!_]*.py")):
        name = f"tests.{suite}.scenarios.{path.stem}"
        importlib.import_module(name)
        found += _found.get(name, [])
    return found


def outcome_of(ending: Ending, trouble: Sequence[str]) -> tuple[str, str]:
    """passed, failed, skipped or lost, and the reason or the scenario's message."""
    if trouble:
        return "failed", f"the kernel said: {trouble[0]}"
    if ending.lost or ending.error == "Skipped":
        return "lost" if ending.lost else "skipped", ending.message
    if ending.error is not None:
        return "failed", f"{ending.error}: {ending.message}"
    return "passed", ending.answer or ""


class KernelLog:
    """The kernel's messages since the last time they were read."""

    def __init__(self) -> None:
        self._log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._log, 0, os.SEEK_END)

    def read_new(self) -> str:
        lines: list[str] = []
        while True:
            try:
                line = os.read(self._log, 8192).decode(errors="replace")
            except BlockingIOError:
                return "\n".join(lines)
            except BrokenPipeError:  # overwritten before we read it
                continue
            lines.append(line.partition(";")[2].splitlines()[0])


# What a scenario that was cut short left behind. Whatever goes wrong is said, and does
# not hide how the scenario ended.
_REMOVE = """
for path in /run/netns/*; do
    test ! -e "$path" || ip netns del "${path##*/}"
done
for path in /sys/class/net/*; do
    test "${path##*/}" = lo || ip link del "${path##*/}"
done
test ! -e /sys/module/sluice || rmmod sluice
"""


def reset() -> None:
    subprocess.run(["sh", "-c", _REMOVE])


def _result(one: Scenario, env: Env, log: KernelLog) -> dict[str, Any]:
    def play() -> str | None:
        with env._deferred:
            return one.function(env)

    started = time.monotonic()
    ending = run_child(play, one.deadline * env.patience)
    reset()
    outcome, message = outcome_of(ending, parse_trouble(log.read_new()))
    return {
        "name": one.name,
        "outcome": outcome,
        "message": message,
        "seconds": round(time.monotonic() - started, 2),
    }


def run_scenarios(job: dict[str, Any], report: Report, say: Say) -> tuple[int, str]:
    sys.path.insert(0, str(REPOSITORY))
    os.environ.update(job.get("environment", {}))
    found = find_scenarios(job["suite"])
    chosen = [one for one in found if one.name in job["names"]] * job.get("times", 1)
    results: list[dict[str, Any]] = []
    log = KernelLog()
    forget_leaks()  # those of the boot
    with background_ping():
        for one in chosen:
            report({"results": results, "running": one.name})
            env = Env(job["patience"], job["packets_divisor"])
            results.append(_result(one, env, log))
            report({"results": results, "running": None})
            line = "{outcome:7} {name} ({seconds:.1f} s) {message}"
            say(line.format(**results[-1]).rstrip())
    ask_kernel()
    failed = sum(r["outcome"] in ("failed", "lost") for r in results)
    return (1, f"{failed} did not pass") if failed else (0, "none failed")
