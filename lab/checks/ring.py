# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the self-test at load notice a ptr_ring whose fields mean something else?

The real kmod/selftest_ring.c runs in user space on the kernel's ptr_ring.h, and
on copies of it in which one field has another meaning.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.checks.policy import Runner, make_empty
from lab.checks.provers import RING
from lab.failure import LabError
from lab.machines.chroot import last_line
from lab.machines.vm import REPOSITORY

SELFTEST = REPOSITORY / "kmod" / "selftest_ring.c"
HARNESS = REPOSITORY / "proofs" / "ring"
_PRODUCE = r"WRITE_ONCE\(r->queue\[r->producer\+\+\], ptr\);"
_PRODUCE += r"\s+if \(unlikely\(r->producer >= r->size\)\)\s+r->producer = 0;"
_ZERO = r"r->queue\[head--\] = NULL;"
_BATCH = r"r->batch = SMP_CACHE_BYTES \* 2 / sizeof\(\*\(r->queue\)\);"
_TAIL = r"consumer_head - r->consumer_tail >= r->batch"
_HEAD = r"WRITE_ONCE\(r->consumer_head, consumer_head\);"


@dataclass(frozen=True)
class Meaning:
    """Another meaning of a field: what is replaced in ptr_ring.h, and by what."""

    name: str
    replaced: dict[str, str]
    noticed_as: str


MEANINGS = (
    Meaning(
        "producer_counts_on",
        {
            _PRODUCE: "r->queue[r->producer++ % r->size] = ptr;",
            r"r->queue\[r->producer\]": "r->queue[r->producer % r->size]",
        },
        "producer",
    ),
    Meaning(
        "producer_is_the_last_packet",
        {
            _PRODUCE: "r->producer = (r->producer + 1) % r->size; "
            "r->queue[r->producer] = ptr;"
        },
        "queue (a packet)",
    ),
    Meaning(
        "head_moves_with_the_tail",
        {_HEAD: "if (r->consumer_tail == consumer_head || !consumer_head) " r"\g<0>"},
        "consumer_head",
    ),
    Meaning(
        "tail_is_the_last_freed_slot",
        {r"r->consumer_tail = consumer_head;": "r->consumer_tail = consumer_head - 1;"},
        "consumer_tail",
    ),
    Meaning(
        "tail_follows_after_two_batches",
        {_TAIL: "consumer_head - r->consumer_tail >= 2 * r->batch"},
        "consumer_tail",
    ),
    Meaning(
        "batch_is_in_bytes",
        {
            _BATCH: "r->batch = SMP_CACHE_BYTES;",
            _TAIL: "(consumer_head - r->consumer_tail) * 8 >= r->batch",
        },
        "consumer_tail",
    ),
    Meaning(
        "free_slots_are_marked",
        {
            _ZERO: "r->queue[head--] = (void *)1;",
            r"\|\| r->queue\[r->producer\]": "|| (long)r->queue[r->producer] > 1",
        },
        "queue (a free slot)",
    ),
    Meaning("size_is_one_less", {r"r->size = size;": "r->size = size - 1;"}, "size"),
    Meaning(
        "resize_leaves_the_head",
        {r"r->producer = producer;\s+r->consumer_head = 0;": "r->producer = producer;"},
        "consumer_head",
    ),
)


def give_meaning(text: str, meaning: Meaning) -> str:
    """ptr_ring.h with another meaning of one field."""
    for pattern, replacement in meaning.replaced.items():
        text, count = re.subn(pattern, replacement, text)
        if not count:
            raise LabError(
                f"ring/{meaning.name}: {RING} does not match '{pattern}'; "
                "correct the pattern in lab/checks/ring.py"
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
