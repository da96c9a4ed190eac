# SPDX-License-Identifier: GPL-2.0-or-later
"""The only file that prints: tables and text for people, JSON for programs, errors."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

WIDTH = 79  # of text; a table is as wide as the terminal
LEAST_WIDTH = 40
SCHEMA = 1  # version of every JSON answer: docs/json.md
GOOD, NOTABLE, BAD, BOLD, DIM = "green", "yellow", "red", "bold", "dim"
CODES = {BOLD: "1", DIM: "2", BAD: "31", GOOD: "32", NOTABLE: "33", "cyan": "36"}


CLOSED = "output: stdout is closed; leave it open"


def prepare() -> bool:
    """Whether stdout is open; what it cannot show is escaped, in every locale."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    return sys.stdout is not None


def forget_unwritten() -> None:
    """What a stream has not taken Python would write again when it ends, and fail."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def encoding() -> str:
    return sys.stdout.encoding or "utf-8"


def encodes(text: str) -> bool:
    """Whether stdout can show it."""
    try:
        text.encode(encoding())
    except UnicodeEncodeError:
        return False
    return True


def _escaped(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    if "\udc80" <= character <= "\udcff":  # a byte that is no text: os.fsdecode()
        return f"\\x{ord(character) & 0xFF:02x}"
    return character.encode("unicode_escape").decode()


def printable(text: str) -> str:
    """The text with escapes for control characters, for bytes that are no text, and for
    what stdout cannot show: anybody may name a device or a process."""
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(map(_escaped, text))
    return shown.encode(encoding(), "backslashreplace").decode(encoding())


def _cell(character: str) -> int:
    import unicodedata

    if unicodedata.combining(character) or unicodedata.category(character) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cell_len(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def set_cell_len(text: str, width: int) -> str:
    """The text cut or filled up to this many columns."""
    while cell_len(text) > width:
        text = text[:-1]
    return text + " " * (width - cell_len(text))


class Span(NamedTuple):
    start: int
    end: int
    style: str  # of CODES


class Text:
    """A line and the styles of its parts."""

    def __init__(self, plain: str = "", style: str = "") -> None:
        self.plain = ""
        self.spans: list[Span] = []
        self.append(plain, style)

    def __str__(self) -> str:
        return self.plain

    def append(self, text: str, style: str = "") -> None:
        start, self.plain = len(self.plain), self.plain + text
        if style:
            self.stylize(style, start)

    def extend(self, other: Text) -> None:
        start = len(self.plain)
        self.plain += other.plain
        for span in other.spans:
            self.stylize(span.style, start + span.start, start + span.end)

    def stylize(self, style: str, start: int = 0, end: int | None = None) -> None:
        self.spans.append(Span(start, len(self.plain) if end is None else end, style))

    @property
    def cell_len(self) -> int:
        return cell_len(self.plain)

    def resized(self, width: int, right: bool = False, mark: str = "") -> Text:
        """Cut to this many columns, with a mark at the end, or filled up."""
        made, room = Text(), width - self.cell_len
        if room < 0:
            kept = set_cell_len(self.plain, width - len(mark)).rstrip()
            made.plain = kept + mark
        else:
            made.plain = " " * room * right + self.plain + " " * room * (not right)
        shift = max(0, room) * right
        ends = len(made.plain)
        for start, end, style in self.spans:
            made.stylize(style, min(start + shift, ends), min(end + shift, ends))
        return made

    def ansi(self) -> str:
        """With the terminal's codes for the styles."""
        ends = {0, len(self.plain)}
        places = sorted(ends.union(*((one.start, one.end) for one in self.spans)))
        drawn = ""
        for start, end in zip(places, places[1:]):  # noqa: B905
            codes = [
                CODES[one.style]
                for one in self.spans
                if one.start <= start and end <= one.end
            ]
            part = self.plain[start:end]
            drawn += f"\x1b[{';'.join(codes)}m{part}\x1b[0m" if codes else part
        return drawn


def is_terminal() -> bool:
    return sys.stdout.isatty()


def is_dumb() -> bool:
    return os.environ.get("TERM", "") in ("", "dumb", "unknown")


def has_colours() -> bool:
    """Only a terminal has, and never with NO_COLOR (no-color.org)."""
    return is_terminal() and not is_dumb() and not os.environ.get("NO_COLOR")


def terminal_size() -> tuple[int, int]:
    """Columns and lines of the terminal. COLUMNS and LINES count only where it has no
    size: a shell that exports them may have been on another one."""
    columns, lines = 0, 0
    with contextlib.suppress(OSError):
        columns, lines = os.get_terminal_size()
    return columns or _number("COLUMNS") or 80, lines or _number("LINES") or 24


def _number(variable: str) -> int:
    given = os.environ.get(variable, "")
    return int(given) if given.isdecimal() else 0


def styled(text: str, style: str = "") -> Text:
    return Text(printable(text), style)


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
    text, part = styled(line), printable(part)
    at = text.plain.find(part) if part else -1
    if at >= 0:
        text.stylize(style, at, at + len(part))
    return text


def drawn(line: str | Text) -> str:
    """The line as it is written to stdout."""
    if isinstance(line, str):
        return printable(line)
    return line.ansi() if has_colours() else line.plain


def say(lines: Iterable[str | Text]) -> None:
    """Print lines unchanged: a narrow terminal wraps them itself."""
    for line in lines:
        sys.stdout.write(f"{drawn(line)}\n")
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


def _fitted(
    columns: Sequence[Column], widths: list[int]
) -> tuple[list[int], list[int]]:
    """Places and widths of the columns that a terminal has room for; a pipe has room
    for all."""
    if not is_terminal():
        return list(range(len(columns))), widths
    room, _ = terminal_size()
    places = choose(columns, widths, room)
    least = [columns[place].least for place in places]
    gaps = len(places) - 1
    return places, fit([widths[place] for place in places], least, room - gaps)


def say_table(columns: Sequence[Column], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print one line for each row; a terminal cuts it where a column allows that."""
    lines = [[bold(column.name) for column in columns]]
    lines += [[styled(c) if isinstance(c, str) else c for c in row] for row in rows]
    widest = [max(line[n].cell_len for line in lines) for n in range(len(columns))]
    places, widths = _fitted(columns, widest)
    mark = "\u2026" if encodes("\u2026") else "~"
    shown = []
    for line in lines:
        cells = [
            line[place].resized(width, columns[place].right, mark)
            for place, width in zip(places, widths)  # noqa: B905
        ]
        text = " ".join(cell.ansi() if has_colours() else cell.plain for cell in cells)
        shown.append(f"{text.rstrip()}\n")
    sys.stdout.write("".join(shown))
    sys.stdout.flush()


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return vars(value)  # asdict() copies, which takes long for a thousand devices
    raise TypeError(f"{type(value).__name__} has no JSON form")


def say_json(answer: dict[str, object], indent: int | None = 1) -> None:
    import json

    text = json.dumps({"schema": SCHEMA, **answer}, default=_plain, indent=indent)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def note(lines: Iterable[str]) -> None:
    """Print what is being done to stderr: stdout is for the answer. Where stderr is full
    or gone nothing can be said, and the command goes on."""
    with contextlib.suppress(OSError):
        for line in lines:
            print(printable(line), file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """Print one line to stderr: object, reason, next step."""
    note([f"sluice: {' '.join(text.split())}"])


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done, on a line that is erased afterwards."""
    shown = sys.stderr.isatty()

    def show(text: str) -> None:
        if shown:
            with contextlib.suppress(OSError):  # the terminal is gone
                sys.stderr.write(f"\r\x1b[K{text}")
                sys.stderr.flush()

    try:
        yield show
    finally:
        show("")


def wrap(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """Lines under 80 columns, and no wider than the terminal; the first begins with
    `first`, others with `rest`."""
    width = min(WIDTH, max(LEAST_WIDTH, terminal_size()[0]))
    if len(first) + len(text) <= width and " ".join(text.split()) == text:
        return [(first + text).rstrip()]
    import textwrap  # takes long to import

    return textwrap.wrap(
        text,
        width,
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
