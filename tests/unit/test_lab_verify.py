# SPDX-License-Identifier: GPL-2.0-or-later
"""What the provers say, and that silence is no verdict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.checks.driver import driver_files
from lab.checks.programs import (
    FINE,
    FOLDERS,
    FOUND,
    PROOFS,
    SERIES,
    Fault,
    added_lines,
    headers_named,
    parse_verdict,
    read_faults,
)
from lab.checks.verify import (
    LITMUS,
    Proof,
    ask,
    parse_observation,
    parse_search,
    read_litmus,
)
from lab.failure import LabError
from lab.machines.build import KMOD

BASES = sorted({path.stem.partition("+")[0] for path in LITMUS.glob("*.litmus")})
SEARCHED = "State-vector 64 byte, errors: 0\n  1228 states, stored\n"


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
    ("log", "status", "says"),
    [
        (WORLD, 0, FINE),
        (WORLD, 1, "no verdict"),
        ("seed 0, step 12: queue 0: a packet is lost\n", 1, FOUND),
        ("seed 0: queue 0: a packet is lost\n", 1, FOUND),
        ("seed 0: ended by signal 11\n", 1, FOUND),
        ("SUMMARY: ThreadSanitizer: data race kmod/queue.c:1 in f\n" + WORLD, 0, FOUND),
        ("SUMMARY: AddressSanitizer: heap-use-after-free\n", 1, FOUND),
        (WORLD.replace("2 seeds", "0 seeds"), 0, "no verdict"),
        ("Segmentation fault\n", 139, "no verdict"),
        ("", 0, "no verdict"),
        ("100 packets/s  median 39 ms\nfine: 1 readers\n", 0, FINE),
        ("100 packets/s  median 39 ms\n", 0, "no verdict"),
        ("100 packets/s  median 39 ms: TOO MUCH\n", 1, FOUND),
        ("found: a queue is stopped without a timer\n", 1, FOUND),
        ("fine: 900 examples\n", 0, FINE),
        ("found: line 12: a + b is 1, not 2\n", 1, FOUND),
        ("self-test: size of a ptr_ring is not what sluice knows\n", 1, FOUND),
    ],
)
def test_programs_verdict(log, status, says) -> None:
    assert parse_verdict(log, status)[0] == says


def test_program_says_how_much_it_did_or_what_is_wrong() -> None:
    assert parse_verdict(WORLD, 0)[1] == WORLD.removeprefix("fine: ").strip()
    log = "50 packets/s: fine\n100 packets/s  median   39 ms: TOO MUCH\nmore\n"
    assert parse_verdict(log, 1)[1] == "100 packets/s median 39 ms: TOO MUCH"


def test_headers() -> None:
    text = '#include <a/b.h>\n#include "c.h"\n#include <asm/d.h>\n'
    assert headers_named([text]) == {"a/b.h"}


def test_added_lines_are_code() -> None:
    assert added_lines("@r@\n@@\n+int a;\n+\n f();\n-g();\n") == "int a;\n\n"


def test_a_guard_that_is_not_there_is_said() -> None:
    fault = Fault("steps", "x", "kmod/queue.c", {"two": "three"})
    assert fault.put_into("one two") == "one three"
    with pytest.raises(LabError, match="x: kmod/queue.c does not match 'two'"):
        fault.put_into("one")


FAULTS = [fault for folder in FOLDERS for fault in read_faults(folder)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: f"{one.program}-{one.name}")
def test_guard_is_in_the_source_once(fault) -> None:
    makefile = (PROOFS / "Makefile").read_text()
    assert f"\n{fault.program}_files =" in makefile
    if fault.program != "ring":  # the kernel's, of which a pattern may be in two places
        name = Path(fault.file).name
        in_series = fault.program == "series"
        text = (
            driver_files()[f"drivers/net/{name}"]
            if in_series
            else (KMOD / name).read_text()
        )
        (pattern,) = fault.edits
        assert len(re.findall(pattern, text)) == 1


def test_verdict_that_was_not_expected_is_told() -> None:
    fine, line = ask(Proof("a", FINE, lambda: (FINE, "5 seeds")))
    assert fine and line.split() == ["a", FINE, "0.0", "s", "5", "seeds"]
    fine, line = ask(Proof("b", FINE, lambda: (FOUND, "why")))
    assert not fine and f"{FOUND} NOT {FINE}" in line and line.endswith("why")


@pytest.mark.parametrize("base", BASES)
def test_litmus_has_a_twin_and_cites_what_cites_it(base) -> None:
    texts = read_litmus()
    text = texts[base]
    assert any(name.startswith(f"{base}+") for name in texts), f"{base}: has no twin"
    if base == "upstream":
        return
    if base.startswith("series_"):
        source = "".join(path.read_text() for path in SERIES.rglob("*.[ch]"))
        says = (SERIES.parent / "docs" / "mainline.md").read_text()
    else:
        source = "".join(path.read_text() for path in KMOD.glob("*.c"))
        says = "\n".join(re.findall(r"proofs/litmus:.*", source))
    cited = re.findall(r"(\w+)\(\) \(P", text) + re.findall(r"(\w+)\(\)", text)
    assert any(f"{name}(" in source for name in cited), f"{base}: cites no function"
    assert re.search(rf"\b{base}\b", says), f"{base}: is not cited"
