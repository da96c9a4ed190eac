# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the litmus tests that repeat a function by hand still repeat it.

Each names its functions, with a digest of their text, in lines of its head:

    * Copy of: kmod/queue.c timer_expired() 0123456789abcdef

When the function changes, the copy is compared with it and, if need be, changed;
then `python3 -m lab verify --reviewed` writes the new digests.
"""

from __future__ import annotations

import re

from lab.cache import digest
from lab.checks.programs import FINE, FOUND, PROOFS
from lab.failure import LabError
from lab.machines.vm import REPOSITORY

_COPY = re.compile(r"Copy of: (\S+) (\w+)\(\) ([0-9a-f?]+)$", re.MULTILINE)
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)


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
    for path in sorted((PROOFS / "litmus").glob("*.litmus")):
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
