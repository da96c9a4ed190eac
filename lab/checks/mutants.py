# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints the mutants of the module that the proofs do not find.

universalmutator makes them, with its rules for C and those of proofs/mutation. A mutant
is killed when a program of proofs/Makefile fails with it. What the compiler translates
to the same code as the source, or as another mutant, is none.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab import processes
from lab.cache import digest
from lab.checks.programs import FINE, PROOFS, Workshop, workshop
from lab.checks.verify import without_comments
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
BUILT = ("examples", "steps")


@dataclass(frozen=True)
class Mutant:
    file: str
    change: str  # the line's number, as it was, and as it is
    text: str

    def __str__(self) -> str:
        return f"kmod/{self.file}:{self.change}"


def make_mutants(python: Path, file: str) -> Iterator[Mutant]:
    original = without_comments((KMOD / file).read_text())
    with tempfile.TemporaryDirectory(prefix="sluice-mutants-") as name:
        folder = Path(name)
        (folder / "source.c").write_text(original)
        (folder / "made").mkdir()
        command = [str(python.with_name("mutate")), "source.c", "c", str(RULES)]
        command += ["--noCheck", "--swap", "--mutantDir", "made"]
        failure = f"universalmutator: no mutant of {file}"
        processes.must_run(command, failure, f"correct {RULES}", cwd=folder)
        texts = [path.read_text() for path in sorted((folder / "made").iterdir())]
    for text in texts:
        pairs = zip(original.splitlines(), text.splitlines(), strict=False)
        changed = [(n, *pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1]]
        for number, was, now in changed[:1]:
            was, now = was.strip(), now.strip()
            if not _SPOKEN.match(was) and not _SPOKEN.match(now):
                yield Mutant(file, f"{number}: {was} -> {now}", text)


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
        if any(copy.build(program) is not None for program in BUILT):
            return "does not compile"
        if (code := copy.digest(*BUILT)) in decided:
            return "same code"
        decided.add(code)
        killed = any(verdict != FINE for verdict in _verdicts(copy, mutant.file))
    return "killed" if killed else "survives"


def mutants(sample: int = 0, seed: int | None = None) -> int:
    """Print the survivors; sample: of so many drawn at random, 0 for all."""
    python = ensure_venv()
    made = [mutant for file in FILES for mutant in make_mutants(python, file)]
    if sample:
        seed = random.SystemRandom().randrange(1 << 16) if seed is None else seed
        say(f"mutants: a sample; to repeat it: --seed {seed}")
        made = random.Random(seed).sample(made, min(sample, len(made)))
    counts: Counter[str] = Counter()
    with workshop() as place:
        place.must_build(*BUILT)
        decided = {place.digest(*BUILT)}  # steps has no events.c
        for mutant in made:
            verdict = try_one(place, mutant, decided)
            counts[verdict] += 1
            if verdict == "survives":
                print(f"survives  {mutant}", flush=True)
    told = (f"{count} {verdict}" for verdict, count in counts.items())
    print(f"mutants: {', '.join(told)}")
    return 0
