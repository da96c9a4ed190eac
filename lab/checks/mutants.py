# SPDX-License-Identifier: GPL-2.0-or-later
"""How many faults in the source the proofs find: mutants of the module.

universalmutator makes them, with its rules for C and those of proofs/mutation.
A mutant is killed when one of proofs/policy's programs fails with it. What the
compiler translates to the same code is no mutant.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import os
import random
import re
import subprocess
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab import processes
from lab.checks.policy import EXAMPLES, FINE, PACE, STEPS, THREADS, Harness
from lab.checks.verify import Workplace
from lab.failure import LabError
from lab.machines.build import KMOD
from lab.machines.vm import REPOSITORY
from lab.report.results import read_git
from lab.setup import ensure_venv, say

MUTATION = REPOSITORY / "proofs" / "mutation"
# Says something, or asserts: changes nothing.
SPOKEN = re.compile(
    r"(pr_(err|crit|warn|notice|info)|netdev_warn|lockdep_assert_held|ASSERT_RTNL"
    r"|WARN_ON_ONCE)\("
)
# Of a sample, so many are drawn of each file.
SHARES = {
    "queue.c": 8,
    "hook.c": 2,
    "direct.c": 1,
    "entry.h": 2,
    "device.c": 2,
    "layout.c": 1,
}
FILES = tuple(SHARES)
# make test tries a small sample, with little time for each mutant. Nine of ten mutants of
# queue.c and hook.c are killed (lab/results/mutants.json), fewer of other files or on a
# busy host. If seven of ten are, a sample of 16 has fewer than a quarter once in 20,000.
SAMPLE, SAMPLE_KILLED = 16, 1 / 4


@dataclass(frozen=True)
class Effort:
    """What is done to kill one mutant."""

    seeds: int
    seconds: int
    threads: int  # seeds of real threads


FULL = Effort(20000, 60, 6)
SHORT = Effort(4000, 12, 0)


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    was: str
    now: str
    text: str

    @property
    def name(self) -> str:
        key = hashlib.sha256(self.text.encode()).hexdigest()[:12]
        return f"m-{Path(self.file).stem}-{self.line}-{key}"

    def __str__(self) -> str:
        return f"kmod/{self.file}:{self.line}: {self.was} -> {self.now}"


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    verdict: str  # killed, survives, equivalent, same, invalid
    detail: str = ""


def without_comments(text: str) -> str:
    """The same lines, with blanks where comments were."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"'

    def blank(found: re.Match[str]) -> str:
        whole = found[0]
        return whole if whole[0] == '"' else re.sub(r"[^\n]", " ", whole)

    return re.sub(pattern, blank, text, flags=re.DOTALL)


def first_difference(original: str, mutated: str) -> tuple[int, str, str]:
    """The line, and what it was and is, of the first that differs."""
    old, new = original.splitlines(), mutated.splitlines()
    for number, (was, now) in enumerate(zip(old, new, strict=False), 1):
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
            last = (done.stdout + done.stderr).strip().splitlines()[-1:]
            raise LabError(f"universalmutator: no mutant of {file} ({last})")
    made = [Mutant(file, *first_difference(original, text), text) for text in texts]
    return [one for one in made if is_wanted(one)]


def is_wanted(mutant: Mutant) -> bool:
    """Not a question to the kernel or a header's name, and not what is SPOKEN."""
    spoken = SPOKEN.match(mutant.was) or SPOKEN.match(mutant.now)
    return bool(mutant.line) and not mutant.was.startswith("#") and not spoken


def read_equivalents(
    path: Path = MUTATION / "equivalent.toml",
) -> dict[tuple[str, str, str], str]:
    """Why a mutant changes nothing, by file and what its line was and is."""
    listed = tomllib.loads(path.read_text())
    whys: dict[tuple[str, str, str], str] = {}
    for one in listed["equivalent"]:
        whys[one["file"], one["was"], one["now"]] = one["why"]
    for one in listed["unordered"]:
        whys |= {(one["file"], *pair): one["why"] for pair in one["pairs"]}
    return whys


class Trial:
    """Builds mutants and tries to kill them."""

    def __init__(self, place: Workplace, effort: Effort) -> None:
        self.effort = effort
        self.steps, self.pace, self.examples = (
            place.harness(variant, f"mutants-{variant.name}")
            for variant in (STEPS, PACE, EXAMPLES)
        )
        threads = place.harness(THREADS, "mutants-threads") if effort.threads else None
        self.threads = threads
        self._equivalents = read_equivalents()
        self._killed: set[str] = set()  # digests of examples' code
        self._seen = {self._digest(self.steps, "base")}
        self._lock = threading.Lock()

    def _digest(self, harness: Harness, name: str) -> str:
        """Of the objects that the mutant changes; of all for the original."""
        own, total = harness.folder / name, hashlib.sha256()
        for base in sorted((harness.folder / "base").glob("*.o")):
            path = own / base.name
            total.update((path if path.exists() else base).read_bytes())
        return total.hexdigest()

    def try_one(self, mutant: Mutant) -> Result:
        key = (mutant.file, mutant.was, mutant.now)
        if key in self._equivalents:
            return Result(mutant, "equivalent", self._equivalents[key])
        result = self._by_examples(mutant) or self._by_all(mutant)
        for harness in (self.examples, self.steps, self.pace, self.threads):
            if harness:
                harness.forget(mutant.name)
        return result

    def _by_examples(self, mutant: Mutant) -> Result | None:
        """Most are decided in a tenth of the time of a world; None if not."""
        if not self.examples.mutant(mutant.name, {mutant.file: mutant.text}):
            return Result(mutant, "invalid")
        digest = self._digest(self.examples, mutant.name)
        if digest in self._killed:
            return Result(mutant, "same")
        verdict, detail = self.examples.ask(name=mutant.name)
        if verdict == FINE:
            return None
        self._killed.add(digest)
        return Result(mutant, "killed", detail)

    def _by_all(self, mutant: Mutant) -> Result:
        if not self.steps.mutant(mutant.name, {mutant.file: mutant.text}):
            return Result(mutant, "invalid")
        digest = self._digest(self.steps, mutant.name)
        with self._lock:
            same = digest in self._seen
            self._seen.add(digest)
        if same:
            return Result(mutant, "same")
        for verdict, detail in self._verdicts(mutant):
            if verdict != FINE and not self._fails_anyway(detail):
                return Result(mutant, "killed", detail)
        return Result(mutant, "survives")

    def _fails_anyway(self, detail: str) -> bool:
        """Whether the seed that fails does so with the source as it is, too."""
        seed = re.match(r"seed (\d+), step", detail)
        return seed is not None and self.steps.ask(int(seed[1]), 1, 10)[0] != FINE

    def _verdicts(self, mutant: Mutant) -> Iterator[tuple[str, str]]:
        name, effort = mutant.name, self.effort
        changed = {mutant.file: mutant.text}
        yield self.steps.ask(0, effort.seeds, min(4, effort.seconds), name=name)
        if mutant.file == "queue.c":
            self.pace.mutant(name, changed)
            yield self.pace.ask(name=name)
        yield self.steps.ask(1000, effort.seeds, effort.seconds, name=name)
        if self.threads:
            self.threads.mutant(name, changed)
            yield self.threads.ask(0, effort.threads, 0, name=name)


def try_sample(trial: Trial, mutants: list[Mutant], count: int) -> list[Result]:
    """Tries until so many were killed or survived; all if count is 0."""
    results: list[Result] = []
    left, workers = iter(mutants), os.cpu_count() or 1
    judged = 0
    with processes.workers(workers) as pool:
        while not count or judged < count:
            some = list(itertools.islice(left, workers if count else None))
            if not some:
                break
            for result in pool.map(trial.try_one, some):
                results.append(result)
                judged += result.verdict in ("killed", "survives")
                if result.verdict == "survives":
                    print(f"survives  {result.mutant}", flush=True)
    return results


def format_file(file: str, results: list[Result], seconds: float) -> str:
    told = facts(file, results)
    judged = told["killed"] + len(told["survive"])
    share = f"{told['killed_percent']:.0f} %" if judged else "none"
    return (
        f"mutants  kmod/{file}: {share} of {judged} killed "
        f"({told['equivalent']} listed as equivalent, {told['same_code']} that the "
        f"compiler translates as the source or another; {seconds:.0f} s)"
    )


def facts(file: str, results: list[Result]) -> dict[str, Any]:
    """What is kept of a file's results: counts, and each survivor's line."""
    own = [result for result in results if result.mutant.file == file]
    counts = Counter(result.verdict for result in own)
    judged = counts["killed"] + counts["survives"]
    return {
        "tried": counts.total(),
        "do_not_compile": counts["invalid"],
        "same_code": counts["same"],
        "equivalent": counts["equivalent"],
        "killed": counts["killed"],
        "survive": [str(one.mutant) for one in own if one.verdict == "survives"],
        "killed_percent": round(100 * counts["killed"] / judged, 1) if judged else None,
    }


def write_facts(path: Path, results: list[Result], sample: int) -> None:
    """The result file, with what it takes to repeat the run."""
    provenance = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": read_git("rev-parse", "HEAD"),
        "tool": "universalmutator, rules c and proofs/mutation/kernel.rules",
        "mutants": "a sample" if sample else "all",
        "effort": asdict(SHORT if sample else FULL),
        "host_cpus": os.cpu_count(),
    }
    files = {file: facts(file, results) for file in FILES}
    files = {file: one for file, one in files.items() if one["tried"]}
    whole = {"provenance": provenance, "files": files}
    path.write_text(json.dumps(whole, indent=1) + "\n")


def mutants(
    sample: int,
    seed: int | None,
    files: tuple[str, ...],
    goal: float,
    path: Path | None = None,
) -> int:
    """Kill mutants; 0 if the share that is killed reaches the goal.

    sample: so many sixteenths of SHARES, 0 for every mutant; path: for the result.
    """
    seed = random.SystemRandom().randrange(1 << 16) if seed is None else seed
    python = ensure_venv()
    made = {file: make_mutants(python, file) for file in files}
    if sample:
        say(f"mutants: a sample; to repeat it: --seed {seed}")
        chosen = random.Random(seed)
        made = {file: chosen.sample(every, len(every)) for file, every in made.items()}
    results: list[Result] = []
    with Workplace() as place:
        trial = Trial(place, SHORT if sample else FULL)
        for file in files:
            started = time.monotonic()
            count = max(1, sample * SHARES[file] // 16) if sample else 0
            one = try_sample(trial, made[file], count)
            results += one
            print(format_file(file, one, time.monotonic() - started), flush=True)
    if path:
        write_facts(path, results, sample)
    return judge(results, goal)


def sample() -> int:
    """What make test asks: a few mutants, others each time."""
    return mutants(SAMPLE, None, FILES, SAMPLE_KILLED)


def judge(results: list[Result], goal: float) -> int:
    counts = Counter(result.verdict for result in results)
    killed, left = counts["killed"], counts["survives"]
    share = killed / (killed + left) if killed + left else 0.0
    print(f"mutants: {killed} killed, {left} survive: {share:.0%}, at least {goal:.0%}")
    return 0 if share >= goal else 1
