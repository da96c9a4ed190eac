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
from lab.checks.programs import FINE, FOUND
from lab.failure import LabError
from lab.machines.vm import REPOSITORY

_COPY = re.compile(
    r"Copy of: (?P<file>\S+) (?P<name>\w+)\(\) (?P<digest>[0-9a-f?]+)$", re.MULTILINE
)


def without_comments(text: str) -> str:
    """The same lines, with blanks where comments were."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"'

    def blank(found: re.Match[str]) -> str:
        whole = found[0]
        return whole if whole[0] == '"' else re.sub(r"[^\n]", " ", whole)

    return re.sub(pattern, blank, text, flags=re.DOTALL)


def function_text(source: str, name: str) -> str:
    """A function's definition, without comments and with single blanks."""
    bare = without_comments(source)
    head = rf"^[a-z_][\w \t*\n]*?\b{name}\([^;{{}}]*\)\s*\{{"
    found = re.search(rf"{head}.*?^\}}", bare, re.MULTILINE | re.DOTALL)
    if not found:
        raise LabError(f"{name}(): not in the source that a proof copies")
    return " ".join(found[0].split())


def compare(proof: str, tree: Path = REPOSITORY) -> tuple[str, list[str]]:
    """The proof with the digests of the functions as they are now, and those that are
    not as they were when it copied them."""
    changed = []

    def renew(found: re.Match[str]) -> str:
        file, name = found["file"], found["name"]
        now = digest(function_text((tree / file).read_text(), name))
        if now != found["digest"]:
            changed.append(f"{file} {name}()")
        return f"Copy of: {file} {name}() {now}"

    return _COPY.sub(renew, proof), changed


def compare_all() -> dict[Path, tuple[str, list[str]]]:
    """Each proof that copies a function: see compare()."""
    proofs = REPOSITORY / "proofs"
    paths = [*sorted((proofs / "litmus").glob("*.litmus")), proofs / "model/queue.pml"]
    texts = {path: path.read_text() for path in paths}
    return {path: compare(text) for path, text in texts.items() if _COPY.search(text)}


def check_copies() -> tuple[str, str]:
    """The verdict, and what there is to compare."""
    found = [
        f"{path.name}: {function} changed; compare the copy with it, then: "
        "python3 -m lab verify --reviewed"
        for path, (_, changed) in compare_all().items()
        for function in changed
    ]
    return FOUND if found else FINE, "; ".join(found)


def write_reviewed() -> None:
    for path, (text, changed) in compare_all().items():
        if changed:
            path.write_text(text)
            print(f"reviewed: {path.relative_to(REPOSITORY)}")
