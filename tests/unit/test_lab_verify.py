# SPDX-License-Identifier: GPL-2.0-or-later
"""What the provers say, and that silence is no verdict."""

from __future__ import annotations

import re

import pytest

from lab.checks.policy import (
    FINE,
    FOUND,
    POLICY,
    Seeded,
    headers_named,
    parse_paces,
    parse_world,
    read_guards,
    seeded_text,
)
from lab.checks.series import SERIES
from lab.checks.verify import (
    LITMUS,
    Verdict,
    format_summary,
    format_verdict,
    parse_expected,
    parse_observation,
    parse_search,
)
from lab.failure import LabError
from lab.machines.build import KMOD

BASES = sorted({path.stem.partition("+")[0] for path in LITMUS.glob("*.litmus")})
SEARCHED = "State-vector 64 byte, errors: 0\n  1228 states, stored\n"


def test_result_line() -> None:
    assert parse_expected("C x\n(*\n * Result: Never\n *)") == "Never"
    with pytest.raises(LabError):
        parse_expected("C x")


def test_observation_is_of_the_test_itself() -> None:
    log = "Observation a+b Sometimes 1 2\n"
    assert parse_observation(log, "a+b") == "Sometimes"
    assert parse_observation(log, "a") == "no verdict"
    assert parse_observation("", "a") == "no verdict"


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (SEARCHED, FINE),
        (SEARCHED.replace("errors: 0", "errors: 1"), FOUND),
        ("error: max search depth too small\n" + SEARCHED, "incomplete"),
        ("pan: out of memory\n" + SEARCHED, "incomplete"),
        ("gcc: error", "no verdict"),
        ("", "no verdict"),
    ],
)
def test_search(log, says) -> None:
    assert parse_search(log)[0] == says


WORLD = "fine: 2 seeds, 10 packets, 4 of them strict, 2 stops, 0 stalls\n"


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (WORLD, FINE),
        ("seed 0, step 12: queue 0: a packet is lost\n", FOUND),
        ("seed 0: queue 0: a packet is lost\n", FOUND),
        ("seed 0: ended by signal 11\n", FOUND),
        ("SUMMARY: ThreadSanitizer: data race kmod/queue.c:1 in f\n" + WORLD, FOUND),
        ("SUMMARY: AddressSanitizer: heap-use-after-free\n", FOUND),
        (WORLD.replace("2 seeds", "0 seeds"), "no verdict"),
        ("Segmentation fault\n", "no verdict"),
        ("", "no verdict"),
    ],
)
def test_world(log, says) -> None:
    assert parse_world(log)[0] == says


def test_world_says_how_much_it_did() -> None:
    assert parse_world(WORLD) == (FINE, "2 seeds, 10 packets, 2 stops")


@pytest.mark.parametrize(
    ("log", "status", "says"),
    [
        ("100 packets/s  median 39 ms\n", 0, FINE),
        ("100 packets/s  median 39 ms: TOO MUCH\n", 1, FOUND),
        ("x: a queue is stopped without a timer\n", 1, "no verdict"),
        ("", 0, "no verdict"),
    ],
)
def test_paces(log, status, says) -> None:
    assert parse_paces(log, status)[0] == says


def test_headers() -> None:
    assert headers_named(['#include <a/b.h>\n#include "c.h"\n']) == {"a/b.h"}


def test_a_guard_that_is_not_there_is_said(tmp_path) -> None:
    (tmp_path / "queue.c").write_text("one two")
    bug = Seeded("steps", "x", "two", "three")
    assert seeded_text(bug, tmp_path) == "one three"
    (tmp_path / "queue.c").write_text("two two")
    with pytest.raises(LabError, match="/queue.c"):
        seeded_text(bug, tmp_path)


@pytest.mark.parametrize("bug", read_guards(POLICY), ids=lambda bug: bug.name)
def test_guard_is_in_the_source(bug) -> None:
    assert (KMOD / bug.file).read_text().count(bug.old) == 1


def test_summary_counts_what_was_not_asked() -> None:
    fine = Verdict("a", FINE, FINE, "", 1.0)
    wrong = Verdict("b", FINE, FOUND, "why", 1.0)
    assert format_summary([fine], 1) == "verify: 1 proofs, each as expected"
    assert "1 not asked" in format_summary([fine], 2)
    assert format_summary([], 0) != "verify: 0 proofs, each as expected"
    assert "b" in format_summary([fine, wrong], 2)
    assert f"NOT {FINE}" in format_verdict(wrong)


@pytest.mark.parametrize("base", BASES)
def test_litmus_has_a_twin_and_cites_what_cites_it(base) -> None:
    twins = [path for path in LITMUS.glob(f"{base}+*.litmus")]
    text = (LITMUS / f"{base}.litmus").read_text()
    said = {parse_expected(twin.read_text()) for twin in twins}
    assert parse_expected(text) == "Never" and said == {"Sometimes"}
    if base == "upstream":
        return
    if base.startswith("series_"):
        source = "".join(path.read_text() for path in SERIES.rglob("*.h"))
        says = (SERIES.parent / "docs" / "mainline.md").read_text()
    else:
        source = "".join(path.read_text() for path in KMOD.glob("*.c"))
        says = "\n".join(re.findall(r"proofs/litmus:.*", source))
    cited = re.findall(r"(\w+)\(\) \(P", text) + re.findall(r"(\w+)\(\)", text)
    assert any(f"{name}(" in source for name in cited), f"{base}: cites no function"
    assert re.search(rf"\b{base}\b", says), f"{base}: is not cited"
