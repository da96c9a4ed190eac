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
from collections.abc import Iterator
from dataclasses import dataclass, field

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sluice import devices, options, output, system
from sluice.devices import NOQUEUE, View
from sluice.errors import FINE, SluiceError

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


# ifindex, number of the queue, whether it is one of several: what an only queue counts
# is its device's, and no continuation of what it counted beside others.
Key = tuple[int, int, bool]


@dataclass(frozen=True)
class Row:
    """A queue at one moment."""

    key: Key
    label: str
    state: str
    fill: int | None  # None: only the module knows
    limit: int  # fill at which the sparkline is full
    stops: float  # per second, as the following
    stalls: float
    drops: float


@dataclass
class Watched:
    """What is kept from one look to the next."""

    at: float = 0.0
    counts: dict[Key, tuple[int, int, int]] = field(default_factory=dict)
    fills: dict[Key, deque[int]] = field(default_factory=dict)


Counted = tuple[Row, tuple[int, int, int]]


def _now(view: View) -> Iterator[Counted]:
    """A row for each queue, rates still missing, and its counters."""
    if not view.queues:
        key = (view.ifindex, 0, False)
        row = Row(key, view.name, view.state, None, view.ring, 0, 0, 0)
        yield row, (0, 0, view.tx_dropped)
    for queue in view.queues:
        many = len(view.queues) > 1
        label = f"{view.name}/{queue.id}" if many else view.name
        state = view.state if queue.state == "idle" else queue.state
        if view.state == "served" and view.qdisc == NOQUEUE:
            state = NOQUEUE
        limit = queue.limit or queue.ring or 1
        key = (view.ifindex, queue.id, many)
        row = Row(key, label, state, queue.fill, limit, 0, 0, 0)
        # The device's own count for its only queue: that of stock counts, too.
        drops = queue.drops if many else view.tx_dropped
        yield row, (queue.stops, queue.stalls, drops)


def observe(watched: Watched, views: list[View], at: float) -> list[Row]:
    """The rows at this moment; queues that vanished are forgotten."""
    counted = [pair for view in views for pair in _now(view)]
    seconds = at - watched.at if watched.at else 0.0
    rows = []
    fills: dict[Key, deque[int]] = {}
    for row, counts in counted:
        before = watched.counts.get(row.key, counts)
        rates = [
            max(0, new - old) / seconds if seconds > 0 else 0.0
            for new, old in zip(counts, before)  # noqa: B905
        ]
        rows.append(Row(row.key, row.label, row.state, row.fill, row.limit, *rates))
        fills[row.key] = watched.fills.get(row.key) or deque(maxlen=HISTORY)
        if row.fill is not None:
            fills[row.key].append(row.fill)
    watched.at, watched.fills = at, fills
    watched.counts = {row.key: counts for row, counts in counted}
    return rows


def sparkline(fills: list[int], limit: int, width: int, bars: str = BARS) -> str:
    """The last fills, the newest to the right; only an empty ring is blank."""
    steps = len(bars) - 1
    shown = fills[-width:] if width > 0 else []
    levels = [min(steps, -(-fill * steps // max(1, limit))) for fill in shown]
    return "".join(bars[level] for level in levels).rjust(width)


def format_rate(rate: float) -> str:
    """At most five characters."""
    if rate < 9999.5:
        return f"{rate:.1f}" if 0 < rate < 9.95 else f"{rate:.0f}"
    return f"{rate / 1e3:.0f}k" if rate < 9.995e5 else f"{rate / 1e6:.1f}M"


HEADING = ("queue", "state", "fill", "limit", "stop/s", "stall/s", "drop/s")
WIDTHS = (14, 9, 6, 6, 6, 7, 6)


def format_cells(cells: tuple[str, ...]) -> str:
    """Words to the left, numbers to the right, a space between them."""
    padded = [
        cell.ljust(width) if place < 2 else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, WIDTHS))  # noqa: B905
    ]
    return " ".join(padded)


def format_row(row: Row, fills: list[int], width: int, bars: str = BARS) -> Text:
    label = output.printable(row.label)
    cells = (
        label if len(label) <= 14 else f"{label[:13]}~",
        row.state,
        "-" if row.fill is None else str(row.fill),
        str(row.limit),
        format_rate(row.stops),
        format_rate(row.stalls),
        format_rate(row.drops),
    )
    text = Text(format_cells(cells), no_wrap=True)
    text.stylize(STYLES.get(row.state, "dim"), WIDTHS[0] + 1, sum(WIDTHS[:2]) + 1)
    room = width - text.cell_len - 1
    if room > 0:
        text.append(" " + sparkline(fills, row.limit, room, bars))
    return text


def format_screen(
    rows: list[Row], watched: Watched, width: int, height: int, bars: str = BARS
) -> Text:
    """Never longer or wider than the terminal."""
    heading = Text(format_cells(HEADING), style="bold", no_wrap=True)
    room = width - heading.cell_len - 1
    heading.append((" " + "fill, newest right".rjust(room)) if room > 18 else "")
    place = max(1, height - 2)
    shown = rows if len(rows) <= place else rows[: max(0, place - 1)]
    lines = [heading]
    for row in shown:
        lines.append(format_row(row, list(watched.fills[row.key]), width, bars))
    if len(shown) < len(rows):
        lines.append(Text(f"and {len(rows) - len(shown)} more"))
    if not rows:
        lines.append(Text("no tun or tap device"))
    lines = [*lines, Text("q: quit", style="dim")][:height]
    for line in lines:
        line.truncate(width)
    return Text("\n").join(lines)


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """The descriptor keys come from one by one; None if there is none."""
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


def _quits(keys: int | None, seconds: float) -> bool:
    """Wait so long; True as soon as q is typed."""
    if keys is None:
        time.sleep(seconds)
        return False
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if not select.select([keys], [], [], left)[0]:
            return False
        typed = os.read(keys, 64)
        if not typed or b"q" in typed.lower():
            return True
    return False


def _watch_lines(names: tuple[str, ...], where: system.Namespace, interval: float,
                 count: int) -> None:
    """For programs: one line of JSON for each look."""
    watched = Watched()
    while True:
        views = devices.matching(devices.read_views(where, {}), names)
        rows = observe(watched, views, time.monotonic())
        output.say_json({"time": time.time(), "queues": rows}, indent=None)
        count -= 1
        if count == 0:
            return
        time.sleep(interval)


def _watch_screen(names: tuple[str, ...], where: system.Namespace, interval: float,
                  count: int) -> None:
    console = Console(no_color=bool(os.environ.get("NO_COLOR")))
    bars = BARS if console.encoding.lower().startswith("utf") else PLAIN_BARS
    watched = Watched()
    with _keys() as keys, Live(
        console=console, screen=True, auto_refresh=False, vertical_overflow="crop"
    ) as live:
        while True:
            views = devices.matching(devices.read_views(where, {}), names)
            rows = observe(watched, views, time.monotonic())
            width, height = console.size
            live.update(format_screen(rows, watched, width, height, bars), refresh=True)
            count -= 1
            if count == 0 or _quits(keys, interval):
                return


@click.command()
@options.names_argument(required=False)
@click.option(
    "--interval",
    type=click.FloatRange(0.05, 60),
    default=0.5,
    show_default=True,
    metavar="SECONDS",
    help="Time from look to look.",
)
@click.option(
    "--count", type=click.IntRange(min=0), default=0, help="End after so many looks."
)
@options.netns_option
@options.json_option
def watch(
    names: tuple[str, ...], interval: float, count: int, netns: str, as_json: bool
) -> int:
    """Show each queue live; q or Ctrl-C ends it.

    Drops of a device with several queues count while it is on.
    """
    if not as_json and not sys.stdout.isatty():
        raise SluiceError("watch: stdout is not a terminal; use: sluice watch --json")
    with system.netns(netns) as where, contextlib.suppress(KeyboardInterrupt):
        if as_json:
            _watch_lines(names, where, interval, count)
        else:
            _watch_screen(names, where, interval, count)
    return FINE
