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


def _compare(path: Path, reviewed: bool) -> list[str]:
    """The functions that are not as they were when this proof copied them."""
    changed = []

    def renew(found: re.Match[str]) -> str:
        file, name = found["file"], found["name"]
        now = digest(function_text((REPOSITORY / file).read_text(), name))
        if now != found["digest"]:
            changed.append(f"{path.name}: {file} {name}()")
        return f"Copy of: {file} {name}() {now}"

    text = _COPY.sub(renew, path.read_text())
    if reviewed and changed:
        path.write_text(text)
    return changed


def compare_copies(reviewed: bool = False) -> tuple[str, str]:
    """The verdict, and what there is to compare; reviewed: that was done, so write the
    digests as they are now."""
    proofs = REPOSITORY / "proofs"
    paths = [*sorted((proofs / "litmus").glob("*.litmus")), proofs / "model/queue.pml"]
    changed = [one for path in paths for one in _compare(path, reviewed)]
    if not changed:
        return FINE, ""
    remedy = "compare the copies with them, then: python3 -m lab verify --reviewed"
    return FOUND, f"changed: {', '.join(changed)}; {remedy}"
