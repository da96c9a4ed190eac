# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel scenarios on a kernel that the lab's table does not have: --tree."""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

from lab import processes
from lab.checks.testing import KERNEL, Played, play, scenario_root
from lab.failure import FINE, NO, UsageError
from lab.guest.scenarios import find_scenarios
from lab.machines import build, vm
from lab.machines.chroot import Root
from lab.machines.matrix import Kernel
from lab.report.results import read_git, save
from lab.setup import ensure_venv, say


def choose(patterns: list[str]) -> list[str]:
    """The scenarios that match; if there is no pattern, all that are played often."""
    found = find_scenarios(KERNEL.name)
    if not patterns:
        return [one.name for one in found if one.often]
    names = [n.name for n in found if any(fnmatchcase(n.name, p) for p in patterns)]
    if not names:
        raise UsageError(f"{', '.join(patterns)}: no kernel scenario matches")
    return names


def facts_of(kernel: Kernel, root: Root, features: str) -> dict[str, object]:
    """What was played on, without a path of this machine."""
    config = (root.path / "boot" / f"config-{root.release}").read_bytes()
    compiler = re.search(rb'^CONFIG_CC_VERSION_TEXT="(.*)"$', config, re.MULTILINE)
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


def summarise(played: Played) -> list[str]:
    """How many came to what; those that did not pass, with the reason."""
    outcomes = Counter(one.outcome for one in played.outcomes.values())
    lines = [
        f"{one.outcome}: {one.name}: {one.message}"
        for one in played.outcomes.values()
        if one.outcome != "passed"
    ]
    lines += [f"the kernel said: {line}" for line in played.trouble]
    return [*lines, ", ".join(f"{count} {name}" for name, count in outcomes.items())]


def play_all(kernel: Kernel, patterns: list[str], path: Path | None) -> int:
    """Play scenarios, tell and save what each came to; 0 if none failed."""
    python = ensure_venv()
    if Path(sys.prefix) != python.parents[1]:  # it has what scenarios import
        command = [str(python), "-B", "-m", "lab", *sys.argv[1:]]
        return processes.run(command).returncode
    names = choose(patterns)
    root = scenario_root(kernel)
    module = build.build_module(root)
    command = ["modinfo", "-F", "features", str(module)]
    features = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    facts = facts_of(kernel, root, features)
    say(f"kernel {root.release}: {len(names)} scenarios")
    played = play(kernel, names, say)
    outcomes = [asdict(one) for one in played.outcomes.values()]
    whole = {**facts, "scenarios": outcomes, "trouble": played.trouble}
    path = save(json.dumps(whole, indent=1) + "\n", path, f"tree-{root.release}")
    print("\n".join([*summarise(played), f"saved in {path}"]))
    bad = {"failed", "lost"} & {one.outcome for one in played.outcomes.values()}
    return NO if bad or played.trouble or len(outcomes) < len(names) else FINE
