# SPDX-License-Identifier: GPL-2.0-or-later
"""A few rules for README.md, CONTRIBUTING.md, docs/ and lab/README.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "lab/README.md")
WORDS_MOST = 40
SENTENCE_ENDS = re.compile(r"(?<=[.!?])[)*\"]*\s+")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
APART = ("#", "    ", "<!--")  # headings, code, comments


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Each paragraph, list item and table cell, with the number of its first line."""
    begins = 0
    lines: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        ends = not line.strip() or line.startswith(("|", *APART))
        if lines and (ends or ITEM.match(line)):
            yield begins, " ".join(lines)
            lines = []
        if line.startswith("|"):
            yield from ((number, cell) for cell in line.split("|"))
        elif not ends:
            begins = begins if lines else number
            lines.append(ITEM.sub("", line).strip())


def sentences(paragraph: str) -> list[str]:
    """The words of a link count, and a full stop in code ends nothing."""
    plain = LINK.sub(r"\1", paragraph)
    return SENTENCE_ENDS.split(CODE.sub(lambda code: code[0].replace(". ", " "), plain))


def complaints(text: str) -> Iterator[tuple[int, str]]:
    for number, paragraph in paragraphs(text):
        for sentence in sentences(paragraph):
            words = re.findall(r"\S*\w\S*", sentence)
            if len(words) > WORDS_MOST:
                yield number, f"{len(words)} words: {' '.join(words[:6])} ..."
            for word in re.findall(r"\b([a-z]+) \1\b", CODE.sub("", sentence)):
                yield number, f"twice in a row: {word}"


def main() -> int:
    found = 0
    for path in sorted(path for page in PAGES for path in TREE.glob(page)):
        for number, words in complaints(path.read_text()):
            print(f"{path.relative_to(TREE)}:{number}: {words}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
