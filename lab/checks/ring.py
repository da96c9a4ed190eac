# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the self-test at load notice a ptr_ring whose fields mean something else?

The real kmod/selftest_ring.c runs in user space on the kernel's ptr_ring.h, and
on copies of it in which one field has another meaning.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lab.checks.policy import Runner, make_empty
from lab.checks.provers import RING
from lab.failure import LabError
from lab.machines.chroot import last_line
from lab.machines.vm import REPOSITORY

SELFTEST = REPOSITORY / "kmod" / "selftest_ring.c"
HARNESS = REPOSITORY / "proofs" / "ring"

@dataclass(frozen=True)
class Meaning:
    """Another meaning of a field: what is replaced in ptr_ring.h, and by what."""

    name: str
    replaced: dict[str, str]
    noticed_as: str


def read_meanings() -> list[Meaning]:
    listed = tomllib.loads((HARNESS / "meanings.toml").read_text())
    patterns = listed["patterns"]
    return [
        Meaning(
            one["name"],
            {patterns[name]: text for name, text in one["replaced"].items()},
            one["noticed_as"],
        )
        for one in listed["meaning"]
    ]


def give_meaning(text: str, meaning: Meaning) -> str:
    """ptr_ring.h with another meaning of one field."""
    for pattern, replacement in meaning.replaced.items():
        text, count = re.subn(pattern, replacement, text)
        if not count:
            raise LabError(
                f"ring/{meaning.name}: {RING} does not match '{pattern}'; "
                "correct proofs/ring/meanings.toml"
            )
    return text


def parse_complaint(log: str) -> str:
    """The field that the self-test names, or what it said instead."""
    found = re.search(r"self-test: (.+?) of a ptr_ring is not", log)
    return found[1] if found else last_line(log)


def prepare(work: Path, ring: str) -> str:
    """Fills a folder with what is built; the script that builds and runs it."""
    shutil.copy(SELFTEST, work)
    shutil.copytree(HARNESS, work / "ring")
    (work / "sluice.h").write_text("")
    names = ["spinlock", "cache", "types", "compiler", "slab", "mm"]
    make_empty(work / "headers", [f"linux/{one}.h" for one in names])
    (work / "headers" / "linux" / RING).write_text(ring)
    flags = "-std=gnu11 -O1 -w -include ring/kernel.h -Iheaders"
    return f"gcc {flags} -o try {SELFTEST.name} ring/ring.c && ./try"


def ask(
    work: Path, run: Runner, ring: str, meaning: Meaning | None = None
) -> tuple[str, str]:
    """The verdict of the self-test on this ptr_ring.h, and what it named."""
    text = give_meaning(ring, meaning) if meaning else ring
    status, log = run(work, prepare(work, text))
    said = parse_complaint(log)
    if status == 0:
        return "fine", said
    if meaning and said != meaning.noticed_as:
        return "no verdict", f"named '{said}', not '{meaning.noticed_as}'"
    return ("found" if "self-test" in log else "no verdict"), said
