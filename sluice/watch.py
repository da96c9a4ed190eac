# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice watch: one line per queue, live."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sluice import devices, namespaces, options, output
from sluice.devices import NOQUEUE, View
from sluice.errors import FINE, SluiceError
from sluice.output import short

BARS = " ▁▂▃▄▅▆▇█"
PLAIN_BARS = " .:-=+*%#"  # for a terminal without Unicode
HISTORY = 500
STYLES = {
    "open": "green",
    "stopped": "cyan",
    "stalled": "red",
    "noqueue": "yellow",
    "lockless": "yellow",
}


# netns, ifindex, number of the queue, whether it is one of several: a single queue
# shows its device's counters, which do not continue those of one among several.
Key = tuple[str, int, int, bool]
Counts = dict[str, int]  # of devices.COUNTS


@dataclass(frozen=True)
class Row:
    """A queue at one moment."""

    key: Key
    label: str
    state: str
    fill: int | None  # None: the module is not loaded
    limit: int  # fill at which the sparkline is full
    backlog: int = 0  # packets in the device's qdisc, on its first queue
    packets: float = 0  # per second, as the following fields; of the device
    stops: float = 0
    stalls: float = 0
    drops: float = 0  # at the ring
    qdisc_drops: float = 0  # of the device
    qdisc_marks: float = 0
    qdisc_overlimits: float = 0


@dataclass
class Watched:
    """What is kept between two updates."""

    at: float = 0.0
    counts: dict[Key, Counts] = field(default_factory=dict)
    fills: dict[Key, deque[int]] = field(default_factory=dict)


def _label(view: View, queue: int | None) -> str:
    at = f"@{view.netns}" if view.netns else ""
    return f"{view.name}{'' if queue is None else f'/{queue}'}{at}"


def _now(view: View) -> Iterator[tuple[Row, Counts]]:
    """A row for each queue, without its rates, and the queue's counters."""
    backlog = view.qdisc_stats.backlog
    whole = devices.counts(view)
    if not view.queues:
        key = (view.netns, view.ifindex, 0, False)
        row = Row(key, _label(view, None), view.state, None, view.ring, backlog)
        yield row, whole
    for number, queue in enumerate(view.queues):
        many = len(view.queues) > 1
        state = view.state if queue.state == "idle" else queue.state
        if view.state == "served" and view.qdisc == NOQUEUE:
            state = NOQUEUE
        limit = queue.limit or queue.ring or 1
        key = (view.netns, view.ifindex, queue.id, many)
        label = _label(view, queue.id if many else None)
        # The device's own figures are shown once, on its first queue.
        row = Row(key, label, state, queue.fill, limit, 0 if number else backlog)
        own = dict.fromkeys(whole, 0) if number else whole
        # A single queue shows the device's counter, which counts without the module, too.
        drops = queue.drops if many else view.tx_dropped
        yield row, {**own, "stops": queue.stops, "stalls": queue.stalls, "drops": drops}


def observe(watched: Watched, views: list[View], at: float) -> list[Row]:
    """The present rows; queues that have vanished are forgotten."""
    counted = [pair for view in views for pair in _now(view)]
    seconds = at - watched.at if watched.at else 0.0
    rows = []
    fills: dict[Key, deque[int]] = {}
    for row, counts in counted:
        before = watched.counts.get(row.key, counts)
        rates = devices.per_second(before, counts, seconds)
        rows.append(replace(row, **rates))  # type: ignore[arg-type]
        fills[row.key] = watched.fills.get(row.key) or deque(maxlen=HISTORY)
        if row.fill is not None:
            fills[row.key].append(row.fill)
    watched.at, watched.fills = at, fills
    watched.counts = {row.key: counts for row, counts in counted}
    return rows


def total(rows: list[Row]) -> Row:
    sums: dict[str, Any] = {}
    for name in devices.COUNTS:
        sums[name] = sum(getattr(row, name) for row in rows)
    fill = sum(row.fill or 0 for row in rows)
    backlog = sum(row.backlog for row in rows)
    limit = sum(row.limit for row in rows)
    key = ("", 0, 0, False)
    label = output.count(len(rows), "queue")
    return Row(key, label, "", fill, limit, backlog, **sums)


ORDERS = ("name", "packets", "drops", "fill")


def ordered(rows: list[Row], order: str) -> list[Row]:
    """Rows sorted by a column, the largest first; by name: in the order of appearance."""
    if order == "name":
        return rows
    if order == "drops":
        return sorted(rows, key=lambda row: -(row.drops + row.qdisc_drops))
    return sorted(rows, key=lambda row: -(getattr(row, order) or 0))


def sparkline(fills: list[int], limit: int, width: int, bars: str = BARS) -> str:
    """The last fills, the newest at the right; only an empty ring is blank."""
    steps = len(bars) - 1
    shown = fills[-width:] if width > 0 else []
    levels = [min(steps, -(-fill * steps // max(1, limit))) for fill in shown]
    return "".join(bars[level] for level in levels).rjust(width)


@dataclass(frozen=True)
class Column:
    heading: str
    width: int
    cell: Callable[[Row], str]


LABEL, STATE = 13, 8  # columns; words are aligned left, numbers right
COLUMNS = (
    Column("FILL", 5, lambda row: "-" if row.fill is None else short(row.fill)),
    Column("LIMIT", 5, lambda row: short(row.limit)),
    Column("PKT/S", 5, lambda row: short(row.packets)),
    Column("STOP/S", 6, lambda row: short(row.stops)),
    Column("STALL/S", 7, lambda row: short(row.stalls)),
    Column("DROP/S", 6, lambda row: short(row.drops)),
    Column("QLEN", 5, lambda row: short(row.backlog)),
    Column("QDROP/S", 7, lambda row: short(row.qdisc_drops)),
    Column("MARK/S", 6, lambda row: short(row.qdisc_marks)),
    Column("OVER/S", 6, lambda row: short(row.qdisc_overlimits)),
)
# A narrow terminal leaves these out, in this order.
SPARE = ("OVER/S", "MARK/S", "LIMIT", "STALL/S", "QLEN", "STOP/S", "FILL")


def choose(width: int) -> list[Column]:
    """The columns that fit."""
    chosen = list(COLUMNS)
    for heading in SPARE:
        if LABEL + 1 + STATE + sum(column.width + 1 for column in chosen) <= width:
            break
        chosen = [column for column in chosen if column.heading != heading]
    return chosen


def _line(label: str, state: str, cells: list[tuple[str, int]]) -> Text:
    numbers = "".join(f" {cell:>{width}}" for cell, width in cells)
    return Text(f"{label:{LABEL}} {state:{STATE}}{numbers}", no_wrap=True)


def format_heading(width: int) -> Text:
    cells = [(column.heading, column.width) for column in choose(width)]
    line = _line("QUEUE", "STATE", cells)
    line.stylize("bold")
    room = width - line.cell_len - 1
    line.append((" " + "fill, newest right".rjust(room)) if room > 18 else "")
    return line


def format_row(row: Row, fills: list[int], width: int, bars: str = BARS) -> Text:
    label = output.printable(row.label)
    label = label if len(label) <= LABEL else f"{label[:LABEL - 1]}~"
    cells = [(column.cell(row), column.width) for column in choose(width)]
    text = _line(label, row.state, cells)
    text.stylize(STYLES.get(row.state, "dim"), LABEL + 1, LABEL + 1 + STATE)
    room = width - text.cell_len - 1
    if room > 0:
        text.append(" " + sparkline(fills, row.limit, room, bars))
    return text


@dataclass
class Screen:
    """The operator's choice: the order of the rows, and the scroll position."""

    width: int = 80
    height: int = 24
    bars: str = BARS
    order: str = "name"
    first: int = 0
    where: str = "any network namespace"

    def press(self, keys: str, rows: int) -> bool:
        """Handle the keys; whether q was one of them."""
        page = max(1, self.height - 4)
        steps = {"\x1b[A": -1, "k": -1, "\x1b[B": 1, "j": 1, "\x1b[5~": -page,
                 "b": -page, "\x1b[6~": page, " ": page}
        while keys:
            known = next((key for key in steps if keys.startswith(key)), keys[0])
            if known in steps:
                last = max(0, rows - page)
                self.first = min(max(0, self.first + steps[known]), last)
            elif known == "s":
                place = ORDERS.index(self.order) + 1
                self.order = ORDERS[place % len(ORDERS)]
                self.first = 0
            elif known in "qQ":
                return True
            keys = keys[len(known):]
        return False


def format_screen(rows: list[Row], watched: Watched, screen: Screen) -> Text:
    """The screen's text, cut to the size of the terminal."""
    width = screen.width
    place = max(1, screen.height - 3)
    screen.first = min(screen.first, max(0, len(rows) - place))
    shown = ordered(rows, screen.order)[screen.first : screen.first + place]
    lines = [format_heading(width)]
    for row in shown:
        fills = list(watched.fills[row.key])
        lines.append(format_row(row, fills, width, screen.bars))
    if rows:
        sums = format_row(total(rows), [], width, screen.bars)
        sums.stylize("bold")
        lines.append(sums)
    else:
        lines.append(Text(f"no tun or tap device in {screen.where}"))
    last = screen.first + len(shown)
    keys = f"{screen.first + 1}-{last} of {len(rows)}; " if len(shown) < len(rows) else ""
    lines.append(
        Text(f"{keys}q quit, s sort ({screen.order}), arrows scroll", style="dim")
    )
    lines = lines[: screen.height]
    for line in lines:
        line.truncate(width)
    return Text("\n").join(lines)


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """A descriptor that gives single keys; None without a terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        yield fd
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _typed(keys: int | None, seconds: float) -> str:
    """Wait for keys, at most this long; the keys."""
    if keys is None:
        time.sleep(seconds)
        return ""
    if not select.select([keys], [], [], seconds)[0]:
        return ""
    return os.read(keys, 64).decode(errors="replace") or "q"


def _read(names: tuple[str, ...], netns: str | None) -> list[View]:
    seen = devices.read_machine(netns, with_owners=False)
    return devices.matching(seen.views, names)


def _watch_lines(
    names: tuple[str, ...], netns: str | None, interval: float, count: int
) -> None:
    """For programs: one line of JSON for each update."""
    watched = Watched()
    while True:
        rows = observe(watched, _read(names, netns), time.monotonic())
        output.say_json({"time": time.time(), "queues": rows}, indent=None)
        count -= 1
        if count == 0:
            return
        time.sleep(interval)


def _watch_screen(
    names: tuple[str, ...], netns: str | None, interval: float, count: int
) -> None:
    console = Console(no_color=bool(os.environ.get("NO_COLOR")))
    utf = console.encoding.lower().startswith("utf")
    where = namespaces.described(netns)
    screen = Screen(bars=BARS if utf else PLAIN_BARS, where=where)
    watched = Watched()
    with _keys() as keys, Live(
        console=console, screen=True, auto_refresh=False, vertical_overflow="crop"
    ) as live:
        while True:
            rows = observe(watched, _read(names, netns), time.monotonic())
            until = time.monotonic() + interval
            count -= 1
            while True:
                screen.width, screen.height = console.size
                live.update(format_screen(rows, watched, screen), refresh=True)
                left = until - time.monotonic()
                if count == 0 or screen.press(_typed(keys, max(0.0, left)), len(rows)):
                    return
                if time.monotonic() >= until:
                    break


@click.command()
@options.names_argument(required=False)
@click.option(
    "--interval",
    type=click.FloatRange(0.05, 60),
    default=0.5,
    show_default=True,
    metavar="SECONDS",
    help="Time between two updates.",
)
@options.count_option("updates")
@options.netns_option
@options.json_option
def watch(
    names: tuple[str, ...],
    interval: float,
    count: int,
    netns: str | None,
    as_json: bool,
) -> int:
    """Show each queue live, and totals; q or Ctrl-C ends it.

    Rates are per second. Packets, qdisc backlog and qdisc drops are those of the
    device, on the line of its first queue.
    """
    if not as_json and not sys.stdout.isatty():
        raise SluiceError("watch: stdout is not a terminal; use: sluice watch --json")
    with contextlib.suppress(KeyboardInterrupt):
        if as_json:
            _watch_lines(names, netns, interval, count)
        else:
            _watch_screen(names, netns, interval, count)
    return FINE
