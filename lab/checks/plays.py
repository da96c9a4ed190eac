# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel scenarios outside of pytest, with a result file: many times (lab again), for a
long time (make abuse, make soak), on a kernel of the user's (lab test kernel --tree).

Abuse is random sequences of what userspace does to a tap, reproducible by their seed;
soak is mixed traffic.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab import processes
from lab.checks.testing import (
    GOOD,
    KERNEL,
    Outcome,
    machine_for,
    play,
    play_on,
    scenario_root,
)
from lab.failure import FINE, NO, UsageError
from lab.guest.scenarios import find_scenarios
from lab.machines import build, vm
from lab.machines.chroot import Root
from lab.machines.matrix import Kernel
from lab.report.results import HostLoad, read_git, read_provenance, save
from lab.setup import ensure_venv, say

ABUSE = "abuse.random_sequences_leave_a_device_that_flows"
SEQUENCE_SECONDS = 20.0  # far more than one takes
SOAK = "soak.mixed_traffic_loses_nothing_but_in_stalls"
Facts = dict[str, Any]


def conclude(
    settled: Sequence[Outcome],
    trouble: list[str],
    facts: Facts,
    asked: int,
    path: Path | None,
    name: str,
) -> int:
    """Tell and save what the plays came to; 0 if all that were asked for ended well."""
    for one in settled:
        if one.outcome != "passed":
            print(f"{one.outcome}: {one.name}: {one.message}")
    for line in trouble:
        print(f"the kernel said: {line}")
    counts = Counter(one.outcome for one in settled)
    counted = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    whole = {**facts, "scenarios": [*map(asdict, settled)], "trouble": trouble}
    path = save(json.dumps(whole, indent=1) + "\n", path, name)
    print(f"saved in {path}\nof {asked} plays: {counted or 'none'}")
    good = len(settled) == asked and all(one.outcome in GOOD for one in settled)
    return FINE if good and not trouble else NO


def play_in_one_boot(
    kernel: Kernel, scenarios: list[str], seconds: float, **job: Any
) -> tuple[list[Outcome], list[str], Facts]:
    """Their outcomes, the kernel's trouble, and the provenance, with what the first
    wrote to /out/MODULE.json.

    seconds: at most, besides the start and the end. /out/MODULE.where says where it was
    when something took long.
    """
    name = scenarios[0].partition(".")[0]
    with machine_for(kernel) as machine:
        say(f"kernel {machine.root.release}: {', '.join(scenarios)}, {job}")
        load = HostLoad()
        settled, trouble = play_on(
            machine, kernel, scenarios, say, seconds=seconds, **job
        )
        if where := vm.read_text(machine.output / f"{name}.where").rstrip():
            say(f"{name}: this took long:\n{where}")
        answer = json.loads(vm.read_text(machine.output / f"{name}.json") or "{}")
        provenance = asdict(read_provenance(machine, load))
    return settled, trouble, {"provenance": provenance, **answer}


def again(kernel: Kernel, scenarios: list[str], times: int, path: Path | None) -> int:
    """Play scenarios by turns, each so many times in one boot."""
    for name in scenarios:
        # The text is read: to import it takes packages that only the guest has for sure.
        module, _, function = name.partition(".")
        source = vm.REPOSITORY / f"tests/kernel/scenarios/{module}.py"
        if f"\ndef {function}(" not in vm.read_text(source):
            raise UsageError(f"{name}: no kernel scenario; name it MODULE.FUNCTION")
    asked = times * len(scenarios)
    plays = play_in_one_boot(kernel, scenarios, KERNEL.seconds * asked, times=times)
    return conclude(*plays, asked, path, f"again-{kernel.name}")


def _endure(
    kernel: Kernel, scenario: str, seconds: float, path: Path | None, **settings: float
) -> int:
    """settings: of the scenario's environment."""
    environment = {f"SLUICE_{name}": str(value) for name, value in settings.items()}
    plays = play_in_one_boot(kernel, [scenario], seconds, environment=environment)
    return conclude(*plays, 1, path, f"{scenario.partition('.')[0]}-{kernel.name}")


def abuse(kernel: Kernel, seed: int, sequences: int, path: Path | None) -> int:
    """The result names the last seed, which repeats a sequence that failed."""
    settings = {"ABUSE_SEED": seed, "ABUSE_SEQUENCES": sequences}
    return _endure(kernel, ABUSE, SEQUENCE_SECONDS * sequences, path, **settings)


def soak(kernel: Kernel, minutes: float, path: Path | None) -> int:
    return _endure(kernel, SOAK, 60 * minutes, path, SOAK_SECONDS=60 * minutes)


def choose(patterns: list[str]) -> list[str]:
    """The scenarios that match; if there is no pattern, all that are played often."""
    found = find_scenarios(KERNEL.name)
    if not patterns:
        return [one.name for one in found if one.often]
    names = [n.name for n in found if any(fnmatchcase(n.name, p) for p in patterns)]
    if not names:
        raise UsageError(f"{', '.join(patterns)}: no kernel scenario matches")
    return names


def facts_of(kernel: Kernel, root: Root) -> Facts:
    """What was played on, without a path of this machine."""
    config = (root.path / "boot" / f"config-{root.release}").read_bytes()
    compiler = re.search(rb'^CONFIG_CC_VERSION_TEXT="(.*)"$', config, re.MULTILINE)
    command = ["modinfo", "-F", "features", str(build.build_module(root))]
    features = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return {
        "date": f"{datetime.date.today()}",
        "release": root.release,
        "config_sha256": sha256(config).hexdigest(),
        "compiler": compiler[1].decode() if compiler else "",
        "suite": kernel.suite,
        "features": features,
        "module_commit": read_git("log", "-1", "--format=%h", "--", "kmod"),
        "accelerator": vm.accelerator(root),
    }


def play_on_tree(kernel: Kernel, patterns: list[str], path: Path | None) -> int:
    """Scenarios on a kernel that the lab's table does not have."""
    python = ensure_venv()
    if Path(sys.prefix) != python.parents[1]:  # it has what scenarios import
        command = [str(python), "-B", "-m", "lab", *sys.argv[1:]]
        return processes.run(command).returncode
    names = choose(patterns)
    root = scenario_root(kernel)
    facts = facts_of(kernel, root)
    say(f"kernel {root.release}: {len(names)} scenarios")
    played = play(kernel, names, say)
    ended = [*played.outcomes.values()], played.trouble, facts
    return conclude(*ended, len(names), path, f"tree-{root.release}")
