# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints the mutants of the module that the proofs do not find.

universalmutator makes them, with its rules for C and those of proofs/mutation. A mutant
is killed when a program of proofs/Makefile fails with it. What the compiler translates
to the same code as the source, or as another mutant, is none.
"""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab import processes
from lab.cache import digest
from lab.checks.copies import without_comments
from lab.checks.programs import FINE, PROOFS, Workshop, workshop
from lab.failure import LabError
from lab.machines.build import KMOD
from lab.setup import ensure_venv, say

RULES = PROOFS / "mutation" / "kernel.rules"
# Says something, or asserts: changes nothing. Or asks the kernel, or names a header.
_SPOKEN = re.compile(
    r"(pr_(err|crit|warn|notice|info)(_once|_ratelimited)?|netdev_warn|ASSERT_RTNL"
    r"|lockdep_assert_held|WARN_ON_ONCE)\(|#"
)
POLICY = ("queue.c", "ring.c", "flow.c")
FILES = (
    *(*POLICY, "hook.c", "direct.c", "entry.h", "device.c", "layout.c"),
    *("backstop.c", "events.c"),
)
SEEDS, SECONDS = 20000, 60  # of steps, for each mutant


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    was: str
    now: str
    text: str

    def __str__(self) -> str:
        return f"kmod/{self.file}:{self.line}: {self.was} -> {self.now}"


def differences(file: str, original: str, mutated: str) -> Iterator[Mutant]:
    """With each line that differs."""
    lines = zip(original.splitlines(), mutated.splitlines(), strict=False)
    for number, (was, now) in enumerate(lines, 1):
        if was != now:
            yield Mutant(file, number, was.strip(), now.strip(), mutated)


def make_mutants(python: Path, file: str) -> list[Mutant]:
    original = without_comments((KMOD / file).read_text())
    with tempfile.TemporaryDirectory(prefix="sluice-mutants-") as name:
        folder = Path(name)
        (folder / "source.c").write_text(original)
        (folder / "made").mkdir()
        command = [str(python.with_name("mutate")), "source.c", "c", str(RULES)]
        command += ["--noCheck", "--swap", "--mutantDir", "made"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        texts = [path.read_text() for path in sorted((folder / "made").iterdir())]
    if done.returncode != 0 or not texts:
        last = processes.last_line(done.stdout + done.stderr)
        raise LabError(f"universalmutator: no mutant of {file} ({last})")
    found = (next(differences(file, original, text), None) for text in texts)
    return [
        one for one in found if one and not any(map(_SPOKEN.match, (one.was, one.now)))
    ]


def _verdicts(copy: Workshop, file: str) -> Iterator[str]:
    """The examples decide most, in a tenth of the time of the others."""
    yield copy.ask("examples")[0]
    yield copy.ask("steps", 0, SEEDS, SECONDS)[0]
    if file in POLICY:
        copy.must_build("adversary")
        yield copy.ask("adversary", 1, 0)[0]


def try_one(place: Workshop, mutant: Mutant, decided: set[str]) -> str:
    name = digest(str(mutant), mutant.text)
    with place.changed(name, f"kmod/{mutant.file}", mutant.text) as copy:
        if any(copy.build(program) is not None for program in ("examples", "steps")):
            return "does not compile"
        if (code := copy.digest("examples", "steps")) in decided:
            return "same code"
        decided.add(code)
        killed = any(verdict != FINE for verdict in _verdicts(copy, mutant.file))
    return "killed" if killed else "survives"


def mutants(
    sample: int = 0, seed: int | None = None, files: tuple[str, ...] = FILES
) -> int:
    """Print the survivors; sample: of so many drawn at random, 0 for all."""
    python = ensure_venv()
    made = [mutant for file in files for mutant in make_mutants(python, file)]
    if sample:
        seed = random.SystemRandom().randrange(1 << 16) if seed is None else seed
        say(f"mutants: a sample; to repeat it: --seed {seed}")
        made = random.Random(seed).sample(made, min(sample, len(made)))
    counts: Counter[str] = Counter()
    with workshop() as place:
        place.must_build("examples", "steps")
        decided = {place.digest("examples", "steps")}  # steps has no events.c
        for mutant in made:
            verdict = try_one(place, mutant, decided)
            counts[verdict] += 1
            if verdict == "survives":
                print(f"survives  {mutant}", flush=True)
    print(
        "mutants:", ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    )
    return 0
