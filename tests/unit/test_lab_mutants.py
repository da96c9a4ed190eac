# SPDX-License-Identifier: GPL-2.0-or-later
"""What counts as a mutant, and what as killed."""

from __future__ import annotations

import contextlib
import json

import pytest

from lab.checks.copies import without_comments
from lab.checks.mutants import (
    SHORT,
    Mutant,
    Result,
    Trial,
    by_file,
    first_difference,
    format_file,
    judge,
    read_equivalents,
    try_all,
)
from lab.machines.build import KMOD
from lab.machines.vm import REPOSITORY

ONE = Mutant("queue.c", 3, "a", "b", "text")


def test_comments_go_and_lines_stay() -> None:
    text = 'a; /* b\n * c */ d; // e\nf("/* g */");\n'
    without = without_comments(text)
    assert without.split() == ["a;", "d;", 'f("/*', 'g', '*/");']
    assert without.count("\n") == text.count("\n")


def test_difference_names_its_line() -> None:
    assert first_difference("a\n b\nc\n", "a\n d\nc\n") == (2, "b", "d")
    assert first_difference("a\n", "a\n") == (0, "", "")


class Copy:
    """A folder whose programs give these verdicts, and all others "fine"."""

    def __init__(self, verdicts=None, code="other", builds=True) -> None:
        self.verdicts, self.code, self.builds = verdicts or {}, code, builds

    def build(self, program: str):
        return None if self.builds else "error"

    def digest(self, program: str) -> str:
        return self.code

    def ask(self, program: str, *_: int) -> tuple[str, str]:
        return self.verdicts.get(program, ("fine", ""))


class Source(Copy):
    """That of the source as it is, which is copied."""

    def __init__(self, copy: Copy, verdicts=None) -> None:
        super().__init__(verdicts, code="source")
        self.copy = copy

    def must_build(self, *_: str) -> None:
        pass

    def changed(self, *_: str):
        return contextlib.nullcontext(self.copy)


SEED = {"steps": ("found", "seed 7, step 12: lost")}


@pytest.mark.parametrize(
    ("copy", "source", "verdict"),
    [
        (Copy(), {}, "survives"),
        (Copy({"examples": ("found", "line 3")}), {}, "killed"),
        (Copy({"pace": ("found", "too long")}), {}, "killed"),
        (Copy(SEED), {}, "killed"),
        (Copy(SEED), SEED, "survives"),  # that seed fails without the mutant, too
        (Copy(builds=False), {}, "invalid"),
        (Copy(code="source"), {}, "same"),
    ],
)
def test_mutant_is_killed_by_what_the_source_passes(copy, source, verdict) -> None:
    trial = Trial(Source(copy, source), SHORT)
    assert trial.try_one(ONE).verdict == verdict


def test_share_is_of_those_that_ran() -> None:
    killed, left = Result(ONE, "killed"), Result(ONE, "survives")
    others = [Result(ONE, word) for word in ("equivalent", "same", "invalid")]
    assert judge([killed, killed, left, *others], 0.66) == 0
    assert judge([killed, killed, left, *others], 0.67) == 1
    assert judge(others, 0.1) == 1
    assert judge([], 0.1) == 1


def test_result_names_each_survivor() -> None:
    other = Mutant("hook.c", 7, "c", "d", "text")
    results = [Result(ONE, "killed"), Result(ONE, "survives"), Result(other, "same")]
    told = by_file(results)
    assert told["queue.c"] == {
        "tried": 2,
        "do_not_compile": 0,
        "same_code": 0,
        "equivalent": 0,
        "killed": 1,
        "survive": ["kmod/queue.c:3: a -> b"],
    }
    assert list(told) == ["queue.c", "hook.c"]
    said = format_file("queue.c", told["queue.c"])
    assert said.startswith("kmod/queue.c: tried 2, ") and said.endswith("survive 1")


class Tried:
    """Kills every second mutant that is neither the first nor the second."""

    def __init__(self) -> None:
        self.count = 0

    def try_one(self, mutant: Mutant) -> Result:
        self.count += 1
        verdicts = {1: "invalid", 2: "same"}
        usual = "killed" if self.count % 2 else "survives"
        return Result(mutant, verdicts.get(self.count, usual))


def test_sample_counts_those_that_ran() -> None:
    verdicts = [one.verdict for one in try_all(Tried(), [ONE] * 9, 0)]
    assert verdicts.count("killed") == 4 and len(verdicts) == 9
    sample = try_all(Tried(), [ONE] * 99, 3)
    assert len(sample) == 5


def test_equivalents_are_of_lines_there_are() -> None:
    for (file, was, now), why in read_equivalents().items():
        text = without_comments((KMOD / file).read_text())
        lines = {line.strip() for line in text.splitlines()}
        assert was in lines and now != was and len(why) > 10, (file, was)


def test_page_has_the_counts_of_the_results() -> None:
    page = (REPOSITORY / "proofs/README.md").read_text()
    results = json.loads((REPOSITORY / "lab/results/mutants.json").read_text())
    for file, one in results["files"].items():
        assert f"{one['killed']:,} of `{file}` ({one['equivalent']}" in page, file
        assert one["survive"] == [], file
