# SPDX-License-Identifier: GPL-2.0-or-later
"""The changes of one patch of series/: semantic patches, new files, inserts.

A patch is a directory: its message, semantic patches (*.cocci), files/ that
are new, insert/ for what is not C. Nothing of the kernel is in there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab.failure import LabError

_RULE = re.compile(r"^(?=@\w+@$)", re.MULTILINE)
_HEAD = re.compile(r"^(?:// )?(file|if|unless|after|before|from): (.*)\n", re.MULTILINE)
# How spatch prints lines it adds, and how the kernel does.
_FOR = re.compile(r"^(\s*for) ?(\(.*)$")
_FUNCTION = re.compile(r"^(\w.*\)) ?\{$")
_ENDS = ("}", "};")


@dataclass(frozen=True)
class SemanticPatch:
    name: str
    file: str  # that it changes
    conditions: dict[str, str]  # if, unless -> "WORD in FILE"
    rules: list[str]  # each is applied by itself

    @property
    def looked_at(self) -> set[str]:
        read = {text.partition(" in ")[2] for text in self.conditions.values()}
        return read | {self.file}

    def applies(self, tree: Path) -> bool:
        for word, text in self.conditions.items():
            what, _, file = text.partition(" in ")
            if (what in (tree / file).read_text()) != (word == "if"):
                return False
        return True


def parse_semantic_patch(name: str, text: str) -> SemanticPatch:
    first, *rules = _RULE.split(text)
    head = dict(_HEAD.findall(first))
    if "file" not in head or not rules:
        raise LabError(f"{name}: names no file or has no named rule; add it")
    return SemanticPatch(name, head.pop("file"), head, rules)


def insert(name: str, spec: str, text: str) -> str:
    """The text with what the spec says after, before or instead of a line."""
    head, rest = {}, spec
    while found := _HEAD.match(rest):
        head[found[1]], rest = found[2], rest[found.end() :]
    lines = text.splitlines(keepends=True)
    places = {}
    for word, pattern in head.items():
        hits = [i for i, line in enumerate(lines) if re.match(pattern, line)]
        if len(hits) != 1:
            raise LabError(
                f"{name}: '{pattern}' is in {len(hits)} lines of the kernel's file; "
                "name another line"
            )
        places[word] = hits[0]
    if "after" in places:
        start = end = places["after"] + 1
    else:
        end = places["before"]
        start = places.get("from", end)
    return "".join([*lines[:start], rest, *lines[end:]])


def _tidy_line(line: str) -> list[str]:
    if not line.strip():
        return [""]
    if function := _FUNCTION.match(line):
        return [function[1], "{"]
    if loop := _FOR.match(line):
        return [loop[1] + " " + re.sub(r";(?=\S)", "; ", loop[2])]
    return [line]


def tidy(old: str, new: str) -> str:
    """The lines that are new in the kernel's layout, which spatch prints in its own."""
    known = set(old.splitlines())
    lines: list[str] = []
    for line in new.splitlines():
        if line in known:
            lines.append(line)
            continue
        if lines and lines[-1] in _ENDS and line[:1].isalpha():
            lines.append("")
        if line.strip() or lines[-1]:  # no second blank line
            lines += _tidy_line(line)
    return "\n".join(lines) + "\n"
