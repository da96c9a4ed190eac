# SPDX-License-Identifier: GPL-2.0-or-later
"""The proofs: each one's verdict beside the one it must have.

A proof that must fail, because a guard was removed, is asked like the others: it
shows that the check can fail.

A litmus test that repeats functions by hand names them, with a digest of their text, in
lines of its head:

    * Copy of: kmod/queue.c timer_expired() 0123456789abcdef

When the function changes, the copy is compared with it and, if need be, changed;
then `python3 -m lab verify --reviewed` writes the new digests.
"""

from __future__ import annotations

import os
import random
import re
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lab import processes
from lab.cache import digest
from lab.checks import programs
from lab.checks.programs import FINE, FOUND, PROOFS, Workshop, read_faults
from lab.failure import LabError
from lab.machines.vm import REPOSITORY
from lab.setup import say

LITMUS = PROOFS / "litmus"
_COPY = re.compile(r"Copy of: (\S+) (\w+)\(\) ([0-9a-f?]+)$", re.MULTILINE)
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)


@dataclass(frozen=True)
class Proof:
    name: str
    expected: str
    ask: Callable[[], tuple[str, str]]  # its verdict, and what it adds to that


SEEDS_SHORT, SEEDS_LONG = 4000, 100000
SEARCH_SECONDS_SHORT, SEARCH_SECONDS_LONG = 10, 240


def parse_observation(log: str, name: str) -> str:
    found = re.search(rf"^Observation {re.escape(name)} (\w+) ", log, re.MULTILINE)
    return found[1] if found else "no verdict"


def parse_search(log: str) -> tuple[str, str]:
    """The verdict of SPIN's search, and how far it went."""
    states = re.search(r"(\d+) states, stored", log)
    errors = re.search(r"errors: (\d+)", log)
    if not states or not errors:
        return "no verdict", processes.last_line(log)
    detail = f"{int(states[1]):,} states"
    if int(errors[1]):
        why = re.search(r"^pan:1: (.*?) \(at depth", log, re.MULTILINE)
        return FOUND, f"{why[1] if why else 'an error'}; {detail}"
    if "max search depth too small" in log or "out of memory" in log:
        return "incomplete", detail
    return FINE, detail


def read_litmus() -> dict[str, str]:
    """Name -> text of each test, and of the twins that twins.toml makes of them."""
    texts = {path.stem: path.read_text() for path in LITMUS.glob("*.litmus")}
    for base, twins in tomllib.loads((LITMUS / "twins.toml").read_text()).items():
        for without, (_, *edits) in twins.items():
            text = texts[base].replace(f"C {base}\n", f"C {base}+{without}\n", 1)
            for old, new in zip(edits[::2], edits[1::2], strict=True):
                if old not in text:
                    raise LabError(f"{base} has no '{old}'; correct litmus/twins.toml")
                text = text.replace(old, new)
            texts[f"{base}+{without}"] = text
    return dict(sorted(texts.items()))


def litmus_proofs(place: Workshop) -> list[Proof]:
    """NAME+WITHOUT lacks a guard that NAME has: then the bad end can be reached."""
    texts = read_litmus()

    def ask(name: str) -> tuple[str, str]:
        (place.folder / "litmus" / f"{name}.litmus").write_text(texts[name])
        _, log = place.run(f"cd litmus; herd7 -conf linux-kernel.cfg {name}.litmus")
        said = parse_observation(log, name)
        return said, processes.last_line(log) if said == "no verdict" else ""

    return [
        Proof(f"litmus/{n}", "Sometimes" if "+" in n else "Never", partial(ask, n))
        for n in texts
    ]


def model_proofs(place: Workshop) -> list[Proof]:
    """What SPIN says of proofs/model/queue.pml, as it is and with its defines."""

    def ask(name: str, define: str) -> tuple[str, str]:
        script = (
            f"mkdir model/{name}; cd model/{name}; "
            f"spin {define} -a ../queue.pml && gcc -O2 -w -DNFAIR=3 -o pan pan.c && "
            "./pan -E -w24 -m8000000 -a -f -N progress"
        )
        _, log = place.run(script)
        return parse_search(log)

    return [
        Proof(f"model/{name}", expected, partial(ask, name, define))
        for name, define, expected in (
            ("senders_go_on", "", FINE),
            ("reader_dies", "-DDIES", FINE),
            ("not_armed_again", "-DBUG_REARM", FOUND),
        )
    ]


def program_proofs(place: Workshop, short: bool) -> list[Proof]:
    """The programs of proofs/Makefile, and each fault that one of them must find."""
    search = SEARCH_SECONDS_SHORT if short else SEARCH_SECONDS_LONG
    asked = {
        "steps": (0, SEEDS_SHORT if short else SEEDS_LONG),
        "adversary": (random.randrange(1_000_000), search),  # others each time
    }
    proofs = []
    for folder in programs.FOLDERS:
        faults = read_faults(folder)
        for name in dict.fromkeys(fault.program for fault in faults):
            place.must_build(name)
            ask = partial(place.ask, name, *asked.get(name, ()))
            proofs.append(Proof(f"{folder}/{name}", FINE, ask))
        for fault in faults:
            ask = partial(place.ask_fault, fault)
            proofs.append(Proof(f"{folder}/{fault.name}", FOUND, ask))
    return proofs


def without_comments(text: str) -> str:
    """The same lines, with blanks where comments were."""

    def blank(found: re.Match[str]) -> str:
        whole = found[0]
        return whole if whole[0] == '"' else re.sub(r"[^\n]", " ", whole)

    return _COMMENT_OR_STRING.sub(blank, text)


def function_text(file: str, name: str) -> str:
    """A function's definition, without comments and with single blanks."""
    bare = without_comments((REPOSITORY / file).read_text())
    head = rf"^[a-z_][\w \t*\n]*?\b{name}\([^;{{}}]*\)\s*\{{"
    found = re.search(rf"{head}.*?^\}}", bare, re.MULTILINE | re.DOTALL)
    if not found:
        raise LabError(f"{file}: has no {name}(), which a proof copies; correct its head")
    return " ".join(found[0].split())


def compare_copies(reviewed: bool = False) -> tuple[str, str]:
    """The verdict, and what there is to compare; reviewed: that was done, so write the
    digests as they are now."""
    changed = []
    for path in sorted(LITMUS.glob("*.litmus")):
        text = path.read_text()
        for file, name, was in _COPY.findall(text):
            now = digest(function_text(file, name))
            if now != was:
                changed.append(f"{path.name}: {file} {name}()")
                text = text.replace(f"{file} {name}() {was}", f"{file} {name}() {now}")
        if reviewed:
            path.write_text(text)
    if not changed:
        return FINE, ""
    remedy = "compare the copies with them, then: python3 -m lab verify --reviewed"
    return FOUND, f"changed: {', '.join(changed)}; {remedy}"


def ask(proof: Proof) -> tuple[bool, str]:
    """Whether its verdict is as expected, and a line that tells it."""
    started = time.monotonic()
    said, detail = proof.ask()
    seconds = time.monotonic() - started
    told = said if said == proof.expected else f"{said} NOT {proof.expected}"
    line = f"{proof.name:44} {told:10} {seconds:5.1f} s  {detail}"
    return said == proof.expected, line.rstrip()


def verify(short: bool, reviewed: bool = False) -> int:
    """Ask every proof, print each verdict; 0 if all are as expected. reviewed: ask none,
    see above."""
    if reviewed:
        compare_copies(reviewed=True)
        return 0
    with programs.workshop() as place:
        proofs = [Proof("copies", FINE, compare_copies), *litmus_proofs(place)]
        proofs += model_proofs(place) + program_proofs(place, short)
        say(f"verify: {len(proofs)} proofs")
        wrong = []
        with processes.workers(os.cpu_count()) as pool:
            for proof, (fine, line) in zip(proofs, pool.map(ask, proofs), strict=True):
                print(line, flush=True)
                if not fine:
                    wrong.append(proof.name)
    if wrong:
        print(f"verify: {len(wrong)} proofs not as expected: {', '.join(wrong)}")
        return 1
    print(f"verify: {len(proofs)} proofs, each as expected")
    return 0
