# SPDX-License-Identifier: GPL-2.0-or-later
"""How many faults in the source the proofs find: mutants of the module.

universalmutator makes them, with its rules for C and those of proofs/mutation.
A mutant is killed when one of the programs of proofs/Makefile fails with it. What the
compiler translates to the same code is no mutant.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import re
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab import processes
from lab.cache import digest
from lab.checks.copies import without_comments
from lab.checks.programs import FINE, Workshop, workshop
from lab.failure import LabError
from lab.machines.build import KMOD
from lab.machines.vm import REPOSITORY
from lab.report.results import read_git
from lab.setup import ensure_venv, say

MUTATION = REPOSITORY / "proofs" / "mutation"
# Says something, or asserts: changes nothing.
SPOKEN = re.compile(
    r"(pr_(err|crit|warn|notice|info)(_once|_ratelimited)?|netdev_warn|ASSERT_RTNL"
    r"|lockdep_assert_held|WARN_ON_ONCE)\("
)
POLICY = ("queue.c", "ring.c", "flow.c")
FILES = (
    *(*POLICY, "hook.c", "direct.c", "entry.h", "device.c", "layout.c"),
    *("backstop.c", "events.c"),
)
# make test-more tries a small sample, with little time for each mutant. Nine of ten
# mutants of queue.c and hook.c are killed (lab/results/mutants.json), fewer of other
# files or on a busy host. If seven of ten are, a sample of 16 has fewer than a quarter
# once in 20,000.
SAMPLE, GOAL_OF_SAMPLE, GOAL = 16, 1 / 4, 0.9


@dataclass(frozen=True)
class Effort:
    """What is done to kill one mutant."""

    seeds: int
    seconds: int


FULL = Effort(20000, 60)
SHORT = Effort(4000, 12)


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    was: str
    now: str
    text: str

    @property
    def name(self) -> str:
        return f"{Path(self.file).stem}-{self.line}-{digest(self.text)}"

    def __str__(self) -> str:
        return f"kmod/{self.file}:{self.line}: {self.was} -> {self.now}"


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    verdict: str  # killed, survives, same, invalid


def first_difference(original: str, mutated: str) -> tuple[int, str, str]:
    """The line, and what it was and is, of the first that differs."""
    lines = zip(original.splitlines(), mutated.splitlines())
    for number, (was, now) in enumerate(lines, 1):
        if was != now:
            return number, was.strip(), now.strip()
    return 0, "", ""


def make_mutants(python: Path, file: str) -> list[Mutant]:
    """All that the rules make of a file."""
    original = without_comments((KMOD / file).read_text())
    with tempfile.TemporaryDirectory(prefix="sluice-mutants-") as name:
        folder = Path(name)
        (folder / "source.c").write_text(original)
        (folder / "made").mkdir()
        rules = MUTATION / "kernel.rules"
        command = [str(python.with_name("mutate")), "source.c", "c", str(rules)]
        command += ["--noCheck", "--swap", "--mutantDir", "made"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        texts = [path.read_text() for path in sorted((folder / "made").iterdir())]
        if done.returncode != 0 or not texts:
            last = processes.last_line(done.stdout + done.stderr)
            raise LabError(f"universalmutator: no mutant of {file} ({last})")
    made = [Mutant(file, *first_difference(original, text), text) for text in texts]
    return [one for one in made if is_wanted(one)]


def is_wanted(mutant: Mutant) -> bool:
    """Not a question to the kernel or a header's name, and not what is SPOKEN."""
    spoken = SPOKEN.match(mutant.was) or SPOKEN.match(mutant.now)
    return bool(mutant.line) and not mutant.was.startswith("#") and not spoken


class Trial:
    def __init__(self, place: Workshop, effort: Effort) -> None:
        self._place, self._effort = place, effort
        place.must_build("examples", "steps", "pace")
        self._decided = {self._code(place)}
        self._lock = threading.Lock()

    @staticmethod
    def _code(place: Workshop) -> str:
        """What the compiler makes of the source; steps has no events.c."""
        return place.digest("examples") + place.digest("steps")

    def _is_decided(self, code: str) -> bool:
        """Whether it is the source's or that of another mutant."""
        with self._lock:
            decided = code in self._decided
            self._decided.add(code)
        return decided

    def try_one(self, mutant: Mutant) -> Result:
        file = f"kmod/{mutant.file}"
        with self._place.changed(mutant.name, file, mutant.text) as copy:
            if copy.build("examples") is not None or copy.build("steps") is not None:
                return Result(mutant, "invalid")
            if self._is_decided(self._code(copy)):
                return Result(mutant, "same")
            for verdict, detail in self._verdicts(copy, mutant.file):
                if verdict != FINE and not self._fails_anyway(detail):
                    return Result(mutant, "killed")
        return Result(mutant, "survives")

    def _fails_anyway(self, detail: str) -> bool:
        """Whether the seed that fails does so with the source as it is, too."""
        seed = re.match(r"seed (\d+), step", detail)
        if seed is None:
            return False
        return self._place.ask("steps", int(seed[1]), 1, 10)[0] != FINE

    def _verdicts(self, copy: Workshop, file: str) -> Iterator[tuple[str, str]]:
        """The examples decide most, in a tenth of the time of the others."""
        effort = self._effort
        yield copy.ask("examples")
        yield copy.ask("steps", 0, effort.seeds, min(4, effort.seconds))
        if file in POLICY:
            copy.build("pace")
            yield copy.ask("pace")
        yield copy.ask("steps", 1000, effort.seeds, effort.seconds)


def try_all(trial: Trial, mutants: list[Mutant], sample: int) -> list[Result]:
    """Tries until so many were killed or survived; all if sample is 0."""
    results: list[Result] = []
    with processes.workers(os.cpu_count()) as pool:
        for result in pool.map(trial.try_one, mutants):
            results.append(result)
            if result.verdict == "survives":
                print(f"survives  {result.mutant}", flush=True)
            if len(results) % 100 == 0:
                say(f"mutants: {len(results)} of {len(mutants)} tried")
            if sample and len(judged(results)) == sample:
                break  # what has not begun does not
    return results


def judged(results: list[Result]) -> list[Result]:
    return [one for one in results if one.verdict in ("killed", "survives")]


def by_file(results: list[Result]) -> dict[str, dict[str, Any]]:
    """What is kept of each file's results: counts, and each survivor's line."""
    kept: dict[str, dict[str, Any]] = {}
    for file in FILES:
        own = [one for one in results if one.mutant.file == file]
        counts = Counter(one.verdict for one in own)
        if own:
            kept[file] = {
                "tried": len(own),
                "do_not_compile": counts["invalid"],
                "same_code": counts["same"],
                "killed": counts["killed"],
                "survive": [str(one.mutant) for one in own if one.verdict == "survives"],
            }
    return kept


def format_file(file: str, kept: dict[str, Any]) -> str:
    counts = {**kept, "survive": len(kept["survive"])}.items()
    return f"kmod/{file}: " + ", ".join(f"{name} {count}" for name, count in counts)


def write_facts(path: Path, results: list[Result], sample: int) -> None:
    """The result file, with what it takes to repeat the run."""
    provenance = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": read_git("rev-parse", "HEAD") or "unknown",
        "tool": "universalmutator, rules c and proofs/mutation/kernel.rules",
        "mutants": "a sample" if sample else "all",
        "effort": asdict(SHORT if sample else FULL),
        "host_cpus": os.cpu_count(),
    }
    whole = {"provenance": provenance, "files": by_file(results)}
    path.write_text(json.dumps(whole, indent=1) + "\n")


def mutants(
    sample: int = SAMPLE,
    seed: int | None = None,
    files: tuple[str, ...] = FILES,
    path: Path | None = None,
) -> int:
    """Kill mutants; 0 if the share that is killed reaches the goal.

    sample: so many, 0 for every one; path: for the result.
    """
    python = ensure_venv()
    made = [mutant for file in files for mutant in make_mutants(python, file)]
    if sample:
        seed = random.SystemRandom().randrange(1 << 16) if seed is None else seed
        say(f"mutants: a sample; to repeat it: --seed {seed}")
        random.Random(seed).shuffle(made)
    with workshop() as place:
        trial = Trial(place, SHORT if sample else FULL)
        results = try_all(trial, made, sample)
    for file, kept in by_file(results).items():
        print(format_file(file, kept))
    if path:
        write_facts(path, results, sample)
    return judge(results, GOAL_OF_SAMPLE if sample else GOAL)


def judge(results: list[Result], goal: float) -> int:
    ran = judged(results)
    killed = sum(one.verdict == "killed" for one in ran)
    share = killed / len(ran) if ran else 0.0
    print(f"mutants: {killed} of {len(ran)} killed: {share:.0%}, at least {goal:.0%}")
    return 0 if share >= goal else 1
