# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the proofs that repeat a function by hand still repeat it.

A litmus test or the model names each function it stands for, with a digest of its
text, in a line of its head:

    * Copy of: kmod/queue.c timer_expired() 0123456789abcdef

When the function changes, the copy is compared with it and, if need be, changed;
then `python3 -m lab verify --reviewed` writes the new digests.
"""

from __future__ import annotations

import re
from pathlib import Path

from lab.cache import digest
from lab.failure import LabError
from lab.machines.vm import REPOSITORY

_COPY = re.compile(
    r"Copy of: (?P<file>\S+) (?P<name>\w+)\(\) (?P<digest>[0-9a-f?]+)$", re.MULTILINE
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def function_text(source: str, name: str) -> str:
    """A function's definition, without comments and with single blanks."""
    bare = _COMMENT.sub(" ", source)
    head = rf"^[a-z_][\w \t*\n]*?\b{name}\([^;{{}}]*\)\s*\{{"
    found = re.search(rf"{head}.*?^\}}", bare, re.MULTILINE | re.DOTALL)
    if not found:
        raise LabError(f"{name}(): not in the source that a proof copies")
    return " ".join(found[0].split())


def proofs_with_copies() -> list[Path]:
    proofs = REPOSITORY / "proofs"
    paths = [*sorted((proofs / "litmus").glob("*.litmus")), proofs / "model/queue.pml"]
    return [path for path in paths if _COPY.search(path.read_text())]


def current_digest(file: str, name: str, tree: Path = REPOSITORY) -> str:
    return digest(function_text((tree / file).read_text(), name))


def changed_functions(proof: str, tree: Path = REPOSITORY) -> list[str]:
    """The functions a proof copies that are not as they were when it did."""
    return [
        f"{found['file']} {found['name']}()"
        for found in _COPY.finditer(proof)
        if current_digest(found["file"], found["name"], tree) != found["digest"]
    ]


def reviewed(proof: str, tree: Path = REPOSITORY) -> str:
    """The proof with the digests of the functions as they are now."""

    def renew(found: re.Match[str]) -> str:
        now = current_digest(found["file"], found["name"], tree)
        return f"Copy of: {found['file']} {found['name']}() {now}"

    return _COPY.sub(renew, proof)


def check_copies() -> list[str]:
    """What is to be compared, one line each."""
    return [
        f"{path.name}: {changed} changed; compare the copy with it, then: "
        "python3 -m lab verify --reviewed"
        for path in proofs_with_copies()
        for changed in changed_functions(path.read_text())
    ]


def write_reviewed() -> int:
    """Write the digests of the functions as they are; how many files changed."""
    count = 0
    for path in proofs_with_copies():
        text = path.read_text()
        if (now := reviewed(text)) != text:
            path.write_text(now)
            print(f"reviewed: {path.relative_to(REPOSITORY)}")
            count += 1
    return count
