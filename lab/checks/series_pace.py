# SPDX-License-Identifier: GPL-2.0-or-later
"""The series' policy in user space: proofs/series, and what must be found there."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.checks.policy import POLICY, Runner, Seeded, headers_named, make_empty
from lab.checks.policy import parse_paces, read_guards, seeded_text
from lab.machines.vm import REPOSITORY

PROOFS = REPOSITORY / "proofs" / "series"
HEADER = REPOSITORY / "series" / "02-tun" / "files" / "drivers" / "net" / "tun_txq.h"
HELPERS = REPOSITORY / "series" / "01-ptr_ring" / "ptr_ring.cocci"
SEEDED = read_guards(PROOFS)


def added_lines(semantic_patch: str) -> str:
    """What a semantic patch adds: here, the ring's helpers."""
    lines = semantic_patch.splitlines()
    return "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))


def ask_pace(run: Runner, work: Path, bug: Seeded | None) -> tuple[str, str]:
    """The verdict of pace.c on tun_txq.h, whole or with a guard taken out."""
    header = seeded_text(bug, HEADER.parent) if bug else HEADER.read_text()
    shutil.copytree(PROOFS, work, dirs_exist_ok=True)
    shutil.copy(POLICY / "simulator.h", work)
    (work / "tun_txq.h").write_text(header)
    (work / "helpers.h").write_text(added_lines(HELPERS.read_text()))
    make_empty(work / "empty", headers_named([header]))
    flags = "-std=gnu11 -O1 -w -Iempty -I. -include kernel.h"
    status, log = run(work, f"gcc {flags} pace.c -o pace && ./pace")
    return parse_paces(log, status)
