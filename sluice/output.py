# SPDX-License-Identifier: GPL-2.0-or-later
"""The only file that prints: tables and text for people, JSON for programs, errors."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 79  # of text; a table is as wide as the terminal
LEAST_WIDTH = 40
SCHEMA = 1  # version of every JSON answer: docs/json.md
GOOD, NOTABLE, BAD, BOLD, DIM = "green", "yellow", "red", "bold", "dim"


def console(stderr: bool = False) -> Console:
    """Colours only on a terminal, and never with NO_COLOR (no-color.org)."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        file=stream,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
    )


def printable(text: str) -> str:
    """The text without control characters: anybody may name a device or a process."""
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in text)


def styled(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)


def bold(text: str) -> Text:
    return styled(text, BOLD)


def good(text: str) -> Text:
    return styled(text, GOOD)


def notable(text: str) -> Text:
    return styled(text, NOTABLE)


def bad(text: str) -> Text:
    return styled(text, BAD)


def marked(line: str, part: str, style: str) -> Text:
    """A line with the first occurrence of this part in a style."""
    text = styled(line)
    at = text.plain.find(printable(part)) if part else -1
    if at >= 0:
        text.stylize(style, at, at + len(part))
    return text


def say(lines: Iterable[str | Text]) -> None:
    """Print lines unchanged: a narrow terminal wraps them itself."""
    out = console()
    for line in lines:
        if isinstance(line, str):
            sys.stdout.write(f"{printable(line)}\n")
        else:
            out.print(line, soft_wrap=True)
    sys.stdout.flush()


@dataclasses.dataclass(frozen=True)
class Column:
    name: str
    right: bool = False  # numbers
    least: int = 0  # the width to which a narrow terminal may cut it
    spare: int = 0  # a narrow terminal leaves these out, 1 first; 0: never


def fit(widths: list[int], least: Sequence[int], room: int) -> list[int]:
    """Column widths that fit; the last columns that may be cut are cut first."""
    for place in reversed(range(len(widths))):
        excess = sum(widths) - room
        if least[place] and excess > 0:
            widths[place] = max(min(widths[place], least[place]), widths[place] - excess)
    return widths


def choose(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """The places of the columns that fit, with a gap between any two."""
    places = list(range(len(columns)))
    for place in sorted(places, key=lambda place: columns[place].spare):
        least = [min(widths[n], columns[n].least or widths[n]) + 1 for n in places]
        if sum(least) - 1 > room and columns[place].spare:
            places.remove(place)
    return places


def say_table(columns: Sequence[Column], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print one line for each row, cut where a column allows that."""
    lines = [[styled(c) if isinstance(c, str) else c for c in row] for row in rows]
    cells = [[Text(column.name) for column in columns], *lines]
    widths = [max(line[n].cell_len for line in cells) for n in range(len(columns))]
    out = console()
    places = choose(columns, widths, out.width)
    lines = [[line[place] for place in places] for line in lines]
    widths = [widths[place] for place in places]
    columns = [columns[place] for place in places]
    gaps = len(columns) - 1
    widths = fit(widths, [column.least for column in columns], out.width - gaps)
    out.width = max(out.width, sum(widths) + gaps)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style=BOLD)
    for column, width in zip(columns, widths):  # noqa: B905
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=width,
        )
    for line in lines:
        table.add_row(*line)
    with out.capture() as captured:
        out.print(table)
    text = captured.get()
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in text.splitlines()))
    sys.stdout.flush()


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def say_json(answer: dict[str, object], indent: int | None = 1) -> None:
    json.dump({"schema": SCHEMA, **answer}, sys.stdout, default=_plain, indent=indent)
    sys.stdout.write("\n")
    sys.stdout.flush()


def note(lines: Iterable[str]) -> None:
    """Print what is being done to stderr: stdout is for the answer."""
    for line in lines:
        print(printable(line), file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """Print one line to stderr: object, reason, next step."""
    print(f"sluice: {printable(' '.join(text.split()))}", file=sys.stderr)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done, on a line that is erased afterwards."""
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
    """Lines under 80 columns, and no wider than the terminal; the first begins with
    `first`, others with `rest`."""
    return textwrap.wrap(
        text,
        min(WIDTH, max(LEAST_WIDTH, shutil.get_terminal_size().columns)),
        initial_indent=first,
        subsequent_indent=" " * len(first) if rest is None else rest,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [first.rstrip()]


def count(number: int, noun: str, nouns: str = "") -> str:
    """A number with its noun: 1 device, 2 devices."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def short(number: float) -> str:
    """A number in at most five characters."""
    if number < 0:
        return "-"
    if number < 9999.5:
        return f"{number:.1f}" if 0 < number < 9.95 and number % 1 else f"{number:.0f}"
    for unit in "kMGTPE":
        number /= 1000
        if number < 999.5:
            return f"{number:.1f}{unit}" if number < 99.95 else f"{number:.0f}{unit}"
    return f"{number:.0f}E"
