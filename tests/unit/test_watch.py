# SPDX-License-Identifier: GPL-2.0-or-later
"""watch: rates, sparklines, sizes, and its end."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sluice import output, system
from sluice.devices import read_views
from sluice import watch
from tests._terminal import Terminal
from tests.unit._machine import QUEUE0, Machine


def look(machine: Machine, watched: watch.Watched, at: float):
    with system.netns("") as where:
        return watch.observe(watched, read_views(where, dict), at)


def shown(
    rows: list[watch.Row], watched: watch.Watched, screen: watch.Screen
) -> list[str]:
    return [line.plain for line in watch.format_screen(rows, watched, screen)]


def test_rates_are_per_second(machine: Machine) -> None:
    machine.queues.append(replace(QUEUE0, id=1))
    watched = watch.Watched()
    assert [row.stops for row in look(machine, watched, 100.0)] == [0, 0, 0]
    machine.queues[0] = replace(QUEUE0, stops=1214, stalls=1, drops=6)
    machine.queues[1] = replace(machine.queues[1], stops=0)  # began again
    machine.devices[1] = replace(machine.devices[1], tx_dropped=10)
    machine.links[0] = replace(machine.links[0], tx_packets=5636)
    machine.qdiscs = {2: replace(machine.qdiscs[2], drops=44, marks=7)}
    first, tun0, second = sorted(look(machine, watched, 102.0), key=lambda r: r.label[-1])
    assert (first.label, first.state, first.fill) == ("tap0/0", "open", 312)
    assert (first.stops, first.stalls, first.drops) == (5.0, 0.5, 3.0)
    assert (first.packets, first.qdisc_drops, first.qdisc_marks) == (318.0, 5.0, 1.0)
    assert (first.backlog, second.backlog, second.packets) == (12, 0, 0.0)
    assert first.waiting_seconds == (312 + 312 + 12) / 318
    assert (second.waiting_seconds, tun0.waiting_seconds) == (None, 0.0)
    assert [watch.format_wait(one) for one in (first, second)] == ["2s", ""]
    assert tun0.drops == 5.0, "of its only queue: all that the driver counts"


def test_each_queue_has_a_row_and_vanished_ones_are_forgotten(machine) -> None:
    machine.queues.append(replace(QUEUE0, id=1))
    watched = watch.Watched()
    rows = look(machine, watched, 1.0)
    assert [row.label for row in rows] == ["tap0/0", "tap0/1", "tun0"]
    machine.devices[0] = replace(machine.devices[0], tx_dropped=10_000)
    machine.queues.pop()
    row = look(machine, watched, 1.5)[0]
    assert (row.label, row.drops) == ("tap0", 0.0), "another count and no burst"
    machine.remove(2)
    assert [row.label for row in look(machine, watched, 2.0)] == ["tun0"]
    assert len(watched.fills) == 1


def test_sparkline() -> None:
    assert watch.sparkline([0, 1, 50, 100, 1000], 100, 7) == "   ▁▄██"
    assert watch.sparkline([0, 1, 100], 100, 2, watch.PLAIN_BARS) == ".#"
    assert watch.sparkline([1], 100, 0) == "" and watch.sparkline([], 0, 3) == "   "
    assert len(watch.BARS) == len(watch.PLAIN_BARS)


@pytest.mark.parametrize("width", [1, 20, 60, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 24])
def test_screen_fits(machine: Machine, width: int, height: int) -> None:
    machine.queues = [replace(QUEUE0, id=number) for number in range(5)]
    watched = watch.Watched()
    rows = look(machine, watched, 1.0)
    lines = shown(rows, watched, watch.Screen(width, height))
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width


def test_screen_at_80_columns(machine: Machine) -> None:
    watched = watch.Watched()
    for turn in range(40):
        machine.queues[0] = replace(QUEUE0, fill=turn * 24)
        rows = look(machine, watched, 1.0 + turn)
    lines = shown(rows, watched, watch.Screen(80, 24))
    assert lines[0].startswith("QUEUE         STATE     FILL LIMIT   WAIT PKT/S STOP/S")
    assert lines[1].startswith("tap0          open       936   976  4.7ms")
    assert not set(lines[1]) & set(watch.BARS[1:]), "a sparkline that shows nothing"
    assert lines[2].startswith("tun0          noqueue      0")
    assert lines[3].startswith("2 queues                 936     -      -")
    assert lines[-1] == "q quit, s sort (name), arrows scroll, ? help"


def test_screen_scrolls_and_sorts(machine: Machine) -> None:
    machine.queues = [replace(QUEUE0, id=number, fill=number) for number in range(30)]
    watched = watch.Watched()
    rows = look(machine, watched, 1.0)
    screen = watch.Screen(120, 10)

    def labels() -> list[str]:
        lines = shown(rows, watched, screen)
        assert len(lines) == 10
        return [line.split()[0] for line in lines[1:8]]

    assert labels() == [f"tap0/{n}" for n in range(7)]
    screen.press("j\x1b[B", len(rows))
    assert labels()[0] == "tap0/2"
    screen.press("\x1b[6~" * 9, len(rows))
    assert labels()[-1] == "tun0"
    screen.press("k" * 99, len(rows))
    screen.press("sss", len(rows))
    assert screen.order == "fill" and labels()[0] == "tap0/29"
    lost = replace(rows[5], drops=1.0), replace(rows[6], qdisc_drops=3.0)
    busy = replace(rows[7], packets=9.0, drops=2.0)
    for order, first in (("name", rows[0]), ("packets", busy), ("drops", lost[1])):
        assert watch.ordered([*rows, *lost, busy], order)[0] is first
    assert not screen.press("x", len(rows)) and screen.press("jq", len(rows))


def test_rows_out_of_sight_are_in_the_total(machine: Machine) -> None:
    machine.queues = [replace(QUEUE0, id=number, fill=10) for number in range(30)]
    watched = watch.Watched()
    look(machine, watched, 1.0)
    machine.queues = [replace(one, stops=one.stops + 4) for one in machine.queues]
    rows = look(machine, watched, 3.0)
    screen = watch.Screen(120, 10)
    *_, sums, foot = shown(rows, watched, screen)
    assert sums.split()[:6] == ["31", "queues", "300", "-", "-", "0"]
    assert foot == "1-7 of 31; q quit, s sort (name), arrows scroll, ? help"
    screen.press("b\x1b[5~", len(rows))
    assert screen.first == 0
    screen.press("  ", len(rows))
    foot = shown(rows, watched, screen)[-1]
    assert foot.startswith("13-19 of 31; ")
    for keys, first in (("k", 11), ("\x1b[A", 10), ("b", 4), ("\x1b[6~", 10)):
        screen.press(keys, len(rows))
        assert screen.first == first, keys


@pytest.mark.parametrize(
    ("state", "colour"),
    [("open", "green"), ("stopped", "cyan"), ("stalled", "red"), ("off", "dim")],
)
def test_state_has_its_colour_and_loss_is_red(machine, state: str, colour: str) -> None:
    row = replace(look(machine, watch.Watched(), 1.0)[0], state=state)
    (span,) = watch.format_row(row, [], watch.lay_out(80, [row])).spans
    assert span.style == colour
    for more, red in (
        ({"drops": 3.0}, ["3"]), ({"stalls": 2.0}, ["2"]), ({"qdisc_drops": 4.0}, []),
    ):
        wrong = replace(row, state="open", **more)
        line = watch.format_row(wrong, [], watch.lay_out(80, [row]))
        spans = [one for one in line.spans if one.style == output.BAD]
        assert [line.plain[one.start : one.end].strip() for one in spans] == red


def test_long_labels_are_cut_in_the_middle(machine: Machine) -> None:
    row = replace(look(machine, watch.Watched(), 1.0)[0], label="abcdefghijklmno/12")
    for width, start in ((77, "abcdef~mno/12 open"), (81, "abcdefgh~klmno/12 open")):
        line = watch.format_row(row, [], watch.lay_out(width, [row])).plain
        assert line.startswith(start) and len(line) == width
    for width, bars in ((93, 0), (94, 10)):
        line = watch.format_row(replace(row, fill=1000, limit=1000), [1000] * 99,
                          watch.lay_out(width, [row])).plain
        assert line.count("█") == bars


def test_a_number_is_shown_whole_or_not_at_all(machine: Machine) -> None:
    watched = watch.Watched()
    rows = look(machine, watched, 1.0)
    for width in range(22, 90):
        lines = shown(rows, watched, watch.Screen(width, 24))
        words = [len(line[22:].split()) for line in lines[:-1]]
        columns = len(watch.lay_out(width, rows).columns)
        assert words[0] == columns and min(words) >= columns, (width, lines)


def test_without_the_module_the_total_has_no_fill(machine: Machine) -> None:
    machine.loaded = False
    watched = watch.Watched()
    rows = look(machine, watched, 1.0)
    assert rows[0].fill is None and rows[0].state == "stock" and rows[0].limit == 1000
    lines = shown(rows, watched, watch.Screen(80, 24))
    assert lines[-2].split()[:3] == ["2", "devices", "-"]
    assert lines[-1].endswith("; module not loaded")


def test_json_is_one_line_for_each_look(machine: Machine, run) -> None:
    said = run("watch --json --count 2 --interval 0.05").out
    lines = [json.loads(line) for line in said.splitlines()]
    assert [len(line["queues"]) for line in lines] == [2, 2]
    assert 0.05 <= lines[1]["time"] - lines[0]["time"]


def test_without_a_terminal_it_says_so(machine: Machine, run) -> None:
    assert run("watch", 1).err == (
        "sluice: watch: stdout is not a terminal; use: sluice watch --json\n"
    )


WATCH = """
import pytest, pathlib, sys, tempfile
from tests.unit import _machine
from sluice.cli import main
_machine.install(pytest.MonkeyPatch(), pathlib.Path(tempfile.mkdtemp()))
sys.exit(main(["watch", *sys.argv[1:]]))
"""
# Starts its arguments, and once they are stopped and a line is typed goes on with them.
SHELL = """
"$@"
echo it stopped
read line
fg
"""


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    with contextlib.ExitStack() as stack:

        def start(
            arguments: Sequence[str] = ("--interval", "0.1"),
            shell: bool = False,
            **how: Any,
        ) -> Terminal:
            command = [sys.executable, "-c", WATCH, *arguments]
            if shell:
                command = ["bash", "-m", "-c", SHELL, "bash", *command]
            found = Terminal(command, **how)
            stack.callback(found.close)
            return found

        yield start


def assert_as_before(one: Terminal, status: int) -> None:
    """The program has ended, and the terminal is as it was."""
    one.wait_for(lambda: one.process.poll() is not None)
    assert one.process.returncode == status
    one.read_rest()
    assert b"\x1b[?1049l" in one.shown and b"\x1b[?25h" in one.shown
    assert termios.tcgetattr(one.secondary) == one.before


@pytest.mark.parametrize("key", [b"q", b"\x03"])
@pytest.mark.parametrize("no_color", ["", "1"])
def test_keys_end_it_and_the_terminal_is_as_before(terminal, key, no_color) -> None:
    one = terminal(NO_COLOR=no_color)
    one.wait_for(lambda: b"tap0" in one.shown)
    one.type(key)
    assert_as_before(one, 0)
    assert b"Traceback" not in one.shown
    assert (b"\x1b[32m" in one.shown) is not bool(no_color)


def test_without_a_keyboard_it_shows_what_it_is_asked_for(terminal) -> None:
    one = terminal(arguments=("--interval", "0.05", "--count", "3"), keyboard=False)
    one.wait_for(lambda: one.process.poll() is not None and b"tap0" in one.shown)
    assert one.process.returncode == 0, one.shown
    assert b"Traceback" not in one.shown


def test_size_of_the_terminal_is_followed_between_two_looks(terminal) -> None:
    one = terminal(arguments=["--interval", "60"])
    one.wait_for(lambda: one.shown.count(b"QUEUE  ") > 1)
    for columns in (44, 120):
        one.resize(columns)
        one.shown = b""
        # The first screen may be of the size before.
        one.wait_for(lambda: one.shown.count(b"QUEUE  ") > 2)
        assert columns - 10 < max(one.widths()) <= columns, one.widths()


def test_no_device_of_that_name(terminal) -> None:
    one = terminal(arguments=["nosuch", "x*"])
    text = b"no tun or tap device matches nosuch, x* in any network namespace"
    one.wait_for(lambda: text in one.shown)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_the_terminal_is_as_before(terminal, number) -> None:
    one = terminal()
    one.wait_for(lambda: b"tap0" in one.shown)
    one.process.send_signal(number)
    assert_as_before(one, -number)


def test_it_is_stopped_with_the_terminal_as_before_and_goes_on(terminal) -> None:
    """Below a shell: the kernel stops no process without one."""
    one = terminal(shell=True)
    one.wait_for(lambda: b"tap0" in one.shown)
    one.type(b"\x1a")
    one.wait_for(lambda: b"it stopped" in one.shown)
    shown = one.shown.partition(b"it stopped")[0]
    assert shown.rstrip().endswith(b"\x1b[?25h") or b"\x1b[?1049l" in shown
    assert termios.tcgetattr(one.secondary) == one.before
    one.shown = b""
    one.type(b"\n")
    one.wait_for(lambda: b"tap0" in one.shown)
    one.type(b"q")
    one.wait_for(lambda: one.process.poll() is not None)
    assert one.process.returncode == 0


def test_a_terminal_that_cannot_show_it_is_refused(terminal) -> None:
    one = terminal(TERM="dumb")
    one.wait_for(lambda: one.process.poll() is not None and b"\n" in one.shown)
    assert one.process.returncode == 1
    assert one.shown.strip() == (
        b"sluice: watch: TERM=dumb cannot move the cursor; use: sluice watch --json"
    )
