# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice watch: one line per queue, live."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import click

from sluice import devices, namespaces, options, output
from sluice.devices import NOQUEUE, View
from sluice.errors import FINE, SluiceError
from sluice.output import Text, cell_len, set_cell_len, short
from sluice.status import format_seconds

BARS = " ▁▂▃▄▅▆▇█"
PLAIN_BARS = " .:-=+*%#"  # for a terminal without Unicode
HISTORY = 500
REDRAW_SECONDS = 0.5
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
    # How long a packet that is sent now waits, of the device; None: unknown
    waiting_seconds: float | None = None
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
    seen = {(view.netns, view.ifindex): view for view in views}
    fills: dict[Key, deque[int]] = {}
    for row, counts in counted:
        before = watched.counts.get(row.key, counts)
        rates = devices.per_second(before, counts, seconds)
        view = seen.pop(row.key[:2], None)  # on its first queue
        waiting = view.waiting(rates["packets"] or view.pace) if view else None
        row = replace(row, waiting_seconds=waiting, **rates)  # type: ignore[arg-type]
        rows.append(row)
        fills[row.key] = watched.fills.get(row.key) or deque(maxlen=HISTORY)
        if row.fill is not None:
            fills[row.key].append(row.fill)
    watched.at, watched.fills = at, fills
    watched.counts = {row.key: counts for row, counts in counted}
    return rows


def total(rows: list[Row]) -> Row:
    """What can be added up: packets and rates, not limits and times."""
    sums: dict[str, Any] = {}
    for name in devices.COUNTS:
        sums[name] = sum(getattr(row, name) for row in rows)
    fills = [row.fill for row in rows if row.fill is not None]
    fill = sum(fills) if fills else None
    backlog = sum(row.backlog for row in rows)
    key = ("", 0, 0, False)
    # Only the module knows the queues.
    label = output.count(len(rows), "device" if fill is None else "queue")
    return Row(key, label, "", fill, 0, backlog, **sums)


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
    is_loss: Callable[[Row], bool] = lambda row: False


def format_wait(row: Row) -> str:
    """Of the first queue of a device: the others wait for the same qdisc."""
    shared = row.key[3] and row.key[2]
    return "" if shared else format_seconds(row.waiting_seconds)


# Columns; words are aligned left, numbers right; the label is wider if there is room.
LABEL, STATE, SPARKLINE = 13, 8, 10
COLUMNS = (
    Column("FILL", 5, lambda row: "-" if row.fill is None else short(row.fill)),
    Column("LIMIT", 5, lambda row: short(row.limit) if row.limit else "-"),
    Column("WAIT", 6, lambda row: format_wait(row)),
    Column("PKT/S", 5, lambda row: short(row.packets)),
    Column("STOP/S", 6, lambda row: short(row.stops)),
    Column("STALL/S", 7, lambda row: short(row.stalls), lambda row: row.stalls > 0),
    Column("DROP/S", 6, lambda row: short(row.drops), lambda row: row.drops > 0),
    Column("QLEN", 5, lambda row: short(row.backlog)),
    Column("QDROP/S", 7, lambda row: short(row.qdisc_drops)),
    Column("MARK/S", 6, lambda row: short(row.qdisc_marks)),
    Column("OVER/S", 6, lambda row: short(row.qdisc_overlimits)),
)
# A narrow terminal leaves these out, in this order; the first rather than the sparkline.
SPARE_FIRST = ("OVER/S", "MARK/S")
SPARE = (*SPARE_FIRST, "QLEN", "LIMIT", "STOP/S", "STALL/S", "FILL", "QDROP/S", "WAIT",
         "DROP/S", "PKT/S")


@dataclass(frozen=True)
class Layout:
    """What a line of this width has."""

    width: int
    columns: list[Column]
    label: int = LABEL


def _taken(columns: list[Column]) -> int:
    return LABEL + 1 + STATE + sum(column.width + 1 for column in columns)


def lay_out(width: int, rows: list[Row]) -> Layout:
    """The columns that fit; what is left is for the labels, and then for a sparkline
    that is not too short."""
    columns = list(COLUMNS)
    for heading in SPARE:
        more = 1 + SPARKLINE if heading in SPARE_FIRST else 0
        if _taken(columns) + more <= width:
            break
        columns = [column for column in columns if column.heading != heading]
    longest = max((cell_len(output.printable(row.label)) for row in rows), default=0)
    room = width - _taken(columns)
    if room > SPARKLINE:
        room -= 1 + SPARKLINE
    return Layout(width, columns, LABEL + max(0, min(longest - LABEL, room)))


def fit_label(label: str, width: int) -> str:
    """Cut in the middle: the end tells the queues of a device apart."""
    if cell_len(label) > width:
        head, tail = set_cell_len(label, width // 2), label
        while cell_len(f"{head}~{tail}") > width:
            tail = tail[1:]
        label = f"{head}~{tail}"
    return set_cell_len(label, width)


def _line(
    layout: Layout, label: str, state: str, cells: list[Text], style: str = ""
) -> Text:
    line = Text(f"{fit_label(label, layout.label)} ")
    line.append(f"{state:{STATE}}", style)
    for cell, column in zip(cells, layout.columns):  # noqa: B905
        line.append(" ")
        line.extend(cell.resized(column.width, right=True))
    return line


def format_heading(layout: Layout) -> Text:
    headings = [Text(column.heading) for column in layout.columns]
    line = _line(layout, "QUEUE", "STATE", headings)
    line.stylize("bold")
    room = layout.width - line.cell_len - 1
    line.append((" " + "fill, newest right".rjust(room)) if room > 18 else "")
    return line


def format_row(row: Row, fills: list[int], layout: Layout, bars: str = BARS) -> Text:
    cells = [
        Text(column.cell(row), output.BAD if column.is_loss(row) else "")
        for column in layout.columns
    ]
    style = STYLES.get(row.state, "dim")
    text = _line(layout, output.printable(row.label), row.state, cells, style)
    room = layout.width - text.cell_len - 1
    if room >= SPARKLINE:
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
    none: str = "no tun or tap device in any network namespace"
    is_help: bool = False

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
            elif known in "?h":
                self.is_help = not self.is_help
            elif known in "qQ":
                return True
            keys = keys[len(known):]
        return False


HELP = """\
QUEUE    the device, /NUMBER of one among several queues, @ its namespace
STATE    open: packets flow into the ring; stopped: they wait in the qdisc;
         stalled: the reader is too slow, a full ring drops; noqueue: the
         device has no queue to stop; lockless: its qdisc must not fill
FILL     packets in the ring          LIMIT    fill at which the queue stops
WAIT     how long a packet that is sent now waits in qdisc and ring
PKT/S    packets the reader took      STOP/S   stops, which are normal
STALL/S  stops a slow reader cut short
DROP/S   packets lost at a full ring  QLEN     packets in the qdisc
QDROP/S, MARK/S, OVER/S    what the qdisc dropped, marked, met of its limits

s sort; arrows, space, b scroll; q quit; ? back"""


def format_screen(rows: list[Row], watched: Watched, screen: Screen) -> list[Text]:
    """The screen's lines, cut to the size of the terminal."""
    if screen.is_help:
        lines = [Text(line) for line in HELP.split("\n")][: screen.height]
        return [_cut(line, screen.width) for line in lines]
    layout = lay_out(screen.width, rows)
    place = max(1, screen.height - 3)
    screen.first = min(screen.first, max(0, len(rows) - place))
    shown = ordered(rows, screen.order)[screen.first : screen.first + place]
    lines = [format_heading(layout)]
    for row in shown:
        fills = list(watched.fills[row.key])
        lines.append(format_row(row, fills, layout, screen.bars))
    if rows:
        sums = format_row(total(rows), [], layout, screen.bars)
        sums.stylize("bold")
        lines.append(sums)
    else:
        lines.append(Text(output.printable(screen.none)))
    last = screen.first + len(shown)
    keys = f"{screen.first + 1}-{last} of {len(rows)}; " if len(shown) < len(rows) else ""
    keys += f"q quit, s sort ({screen.order}), arrows scroll, ? help"
    if rows and total(rows).fill is None:
        keys += "; module not loaded"
    lines.append(Text(keys, style="dim"))
    lines = lines[: screen.height]
    return [_cut(line, screen.width) for line in lines]


def _cut(line: Text, width: int) -> Text:
    return line if line.cell_len <= width else line.resized(width)


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """A descriptor that gives single keys; None without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        yield None
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        yield fd
    finally:
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _typed(keys: int | None, seconds: float) -> str:
    """Wait for keys, at most this long; the keys. A terminal that is gone types q."""
    if keys is None:
        time.sleep(seconds)
        return ""
    if not select.select([keys], [], [], seconds)[0]:
        return ""
    try:
        return os.read(keys, 64).decode(errors="replace") or "q"
    except OSError:
        return "q"


class Held:
    """Signals that end or stop the command: they wait until the screen is left."""

    NUMBERS = (signal.SIGTSTP, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.came = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Held:
        for number in self.NUMBERS:
            if signal.getsignal(number) is signal.SIG_DFL:
                self._before[number] = signal.signal(number, self._hold)
        return self

    def __exit__(self, *_: object) -> None:
        for number, action in self._before.items():
            signal.signal(number, action)

    def _hold(self, number: int, _: object) -> None:
        self.came = number

    def obey(self) -> None:
        """Do what the signal asks for; returns if that was a stop, and it is over."""
        number, self.came = self.came, 0
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._hold)


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


ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # a screen of its own
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


@contextlib.contextmanager
def _own_screen() -> Iterator[None]:
    sys.stdout.write(ENTER)
    try:
        yield
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


def _draw(lines: list[Text]) -> None:
    # Cleared before it is written: at the end of a full line that takes its last cell.
    text = "\r\n".join(CLEAR_LINE + output.drawn(line) for line in lines)
    sys.stdout.write(f"{HOME}{text}{CLEAR_BELOW}")
    sys.stdout.flush()


@dataclass
class Viewer:
    """Looks at the queues again and again, and draws them."""

    names: tuple[str, ...]
    netns: str | None
    interval: float
    count: int
    screen: Screen
    watched: Watched = field(default_factory=Watched)

    def show(self, held: Held) -> None:
        """Until the last look, q, or a signal."""
        with _keys() as keys, _own_screen():
            ended = False
            while not ended:
                views = _read(self.names, self.netns)
                rows = observe(self.watched, views, time.monotonic())
                self.count -= 1
                ended = self._draw(rows, keys, held)

    def _draw(self, rows: list[Row], keys: int | None, held: Held) -> bool:
        """Draw the rows until the next look; whether none is wanted."""
        until = time.monotonic() + self.interval
        while True:
            self.screen.width, self.screen.height = output.terminal_size()
            _draw(format_screen(rows, self.watched, self.screen))
            if self.count == 0 or held.came:
                return True
            left = max(0.0, until - time.monotonic())
            # Not longer: the terminal may get another size.
            if self.screen.press(_typed(keys, min(left, REDRAW_SECONDS)), len(rows)):
                return True
            if time.monotonic() >= until:
                return False


def _watch_screen(
    names: tuple[str, ...], netns: str | None, interval: float, count: int
) -> None:
    if output.is_dumb():
        raise SluiceError(
            f"watch: TERM={os.environ.get('TERM', '')} cannot move the cursor; "
            "use: sluice watch --json"
        )
    named = f" matches {', '.join(names)}" if names else ""
    screen = Screen(
        bars=BARS if output.encodes(BARS) else PLAIN_BARS,
        none=f"no tun or tap device{named} in {namespaces.described(netns)}",
    )
    viewer = Viewer(names, netns, interval, count, screen)
    with Held() as held:
        viewer.show(held)
        while held.came:
            held.obey()
            viewer.show(held)


@click.command()
@options.names_argument(required=False)
@click.option(
    "--interval",
    type=options.Number(0.05, 60),
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
