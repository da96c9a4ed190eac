# SPDX-License-Identifier: GPL-2.0-or-later
"""The only file that prints: text for people, JSON for programs, complaints."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator

import click

WIDTH = 79
# What bold() and its kin put around a text.
_STYLES = re.compile(r"(\x1b\[(?:0|1|3[123])m)")


def wants_color() -> bool:
    """Only on a terminal, and never with NO_COLOR (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def printable(text: str) -> str:
    """Without what a terminal obeys: anybody may name a device or a process."""
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in text)


def _printable_styled(line: str) -> str:
    parts = _STYLES.split(line)
    parts[::2] = [printable(part) for part in parts[::2]]
    return "".join(parts)


def say(lines: Iterable[str]) -> None:
    text = "".join(f"{_printable_styled(line)}\n" for line in lines)
    if not wants_color():
        text = click.unstyle(text)
    sys.stdout.write(text)
    sys.stdout.flush()


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def say_json(value: object, indent: int | None = 1) -> None:
    json.dump(value, sys.stdout, default=_plain, indent=indent)
    sys.stdout.write("\n")
    sys.stdout.flush()


def note(lines: Iterable[str]) -> None:
    """What is being done, on stderr: stdout is for the answer."""
    for line in lines:
        print(printable(line), file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """One line on stderr: object, reason, next step."""
    print(f"sluice: {printable(' '.join(text.split()))}", file=sys.stderr)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Says on a terminal what is under way, on a line that does not stay."""
    shown = sys.stderr.isatty()

    def show(text: str) -> None:
        if shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    try:
        yield show
    finally:
        show("")


def wrap(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """Lines under 80 columns; the first begins with `first`, others with `rest`."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first) if rest is None else rest,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def bold(text: str) -> str:
    return click.style(text, bold=True)


def good(text: str) -> str:
    return click.style(text, fg="green")


def notable(text: str) -> str:
    return click.style(text, fg="yellow")


def bad(text: str) -> str:
    return click.style(text, fg="red")


def count(number: int, noun: str, nouns: str = "") -> str:
    """1 device, 2 devices."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"
