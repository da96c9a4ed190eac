# SPDX-License-Identifier: GPL-2.0-or-later
"""bench: what it makes of recorded loads, and its refusals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from sluice import system
from sluice.bench import command as bench
from sluice.bench import plot, testbed
from sluice.bench.command import Machine, Measured, Summary, format_bench
from sluice.bench.command import summarise, verdict
from sluice.bench.plot import Bar, Chart
from sluice.bench.testbed import Load, child
from sluice.cli import main
from sluice.errors import SluiceError

UDP = Load(3000, 1000, 1_000_000, 1.0, 50, [40.0, 41.0, 70.0])
TCP = Load(0, 800, 2_000_000, 1.0, 50, [10.0] * 50)
MACHINE = Machine("6.12.1", 4, "0.1.0", 3, 2.0, 50)


def measured(lost_by_sluice: int = 0, lost_by_stock: int = 2000) -> list[Measured]:
    losses = {"stock": lost_by_stock, "sluice": lost_by_sluice}
    loads = {"udp": UDP, "tcp": TCP}
    return [
        Measured(variant, load, losses[variant] if load == "udp" else 0, result)
        for _ in range(3)
        for variant in bench.VARIANTS
        for load, result in loads.items()
    ]


def test_rounds_are_summed_and_their_median_taken() -> None:
    first = summarise(measured())[0]
    assert (first.variant, first.load, first.mbit) == ("stock", "udp", 8.0)
    assert (first.sent, first.received, first.lost) == (9000, 3000, 6000)
    assert (first.probes, first.probes_back) == (150, 9)
    assert (first.ping_ms, first.ping_ms_95) == (41.0, 70.0)


def test_pings_that_never_came_back_have_no_time() -> None:
    none = Load(1, 1, 1000, 1.0, 50, [])
    summary = summarise([Measured(v, x, 0, none) for v in bench.VARIANTS for x in
                         bench.LOADS])[0]
    assert summary.ping_ms is None
    assert bench._ping(summary).text == "0 of 50 back"


@pytest.mark.parametrize(
    ("sluice", "stock", "status", "text"),
    [
        (0, 7, 0, "sluice lost nothing at the ring, stock 21 packets"),
        (0, 0, 0, "stock lost nothing either"),
        (1, 7, 1, "sluice lost 3 packets at the ring"),
    ],
)
def test_verdict(sluice: int, stock: int, status: int, text: str) -> None:
    code, said = verdict(summarise(measured(sluice, stock)))
    assert code == status and said.startswith(text)


def huge() -> list[Summary]:
    """Numbers as wide as they become."""
    load = Load(99_999_999, 9_999_999, 10**13, 1.0, 999, [12345.6] * 999)
    return summarise([Measured(v, x, 99_999_999, load) for v in bench.VARIANTS
                      for x in bench.LOADS])


@pytest.mark.parametrize("summaries", [summarise(measured()), huge()])
def test_text_fits_80_columns(summaries: list[Summary], monkeypatch) -> None:
    for unicode in (True, False):
        monkeypatch.setattr(bench, "_writes_unicode", lambda it=unicode: it)
        lines = [str(x) for x in format_bench(MACHINE, summaries)]
        assert max(len(line) for line in lines) < 80, max(lines, key=len)
        assert unicode or all(line.isascii() for line in lines)


def test_bars_are_never_blank_for_something() -> None:
    assert plot.format_bar(0, 4) == "    " and plot.format_bar(1, 4) == "████"
    assert plot.format_bar(0.0001, 4) == "▏   " and plot.format_bar(0.5, 3) == "█▌ "
    assert plot.format_bar(0.0001, 4, unicode=False) == "#   "
    nothing = Chart("lost", (Bar("stock", 0, "0"), Bar("sluice", 0, "0")))
    assert [nothing.share(bar) for bar in nothing.bars] == [0, 0]


def test_svg_is_whole_and_nothing_leaves_it() -> None:
    charts = bench.charts(huge())
    root = ElementTree.fromstring(plot.format_svg("a <b> & c", charts, ["note"]))
    width = plot.WIDTH + 10
    rectangles = root.findall("{http://www.w3.org/2000/svg}rect")[1:]
    assert len(rectangles) == 12
    for one in rectangles:
        assert float(one.get("x")) + float(one.get("width")) <= width - plot.RIGHT
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "a <b> & c" and "note" in texts


@dataclass
class Bed:
    """A testbed that measures nothing."""

    loads: list[tuple[bool, str]] = field(default_factory=list)
    on: bool = False
    lost: int = 0

    def switch(self, on: bool) -> None:
        self.on = on

    def read_drops(self) -> int:
        return self.lost


@pytest.fixture
def bed(monkeypatch) -> Bed:
    found = Bed()

    @contextlib.contextmanager
    def of(work_us: int) -> Iterator[Bed]:
        yield found

    def run_load(_: Bed, load: str, seconds: float) -> Load:
        found.loads.append((found.on, load))
        found.lost += 0 if found.on else 5
        return UDP if load == "udp" else TCP

    monkeypatch.setattr(testbed, "testbed", of)
    monkeypatch.setattr(testbed, "run_load", run_load)
    monkeypatch.setattr(system, "is_root", lambda: True)
    monkeypatch.setattr(system, "has_tun", lambda: True)
    monkeypatch.setattr(system, "read_module_version", lambda: "0.1.0")
    return found


def test_command_measures_in_turn(bed: Bed, capsys) -> None:
    assert main(["bench", "--rounds", "2"]) == 0
    said = capsys.readouterr()
    turn = [(False, "udp"), (False, "tcp"), (True, "udp"), (True, "tcp")]
    assert bed.loads == 2 * turn
    assert "\x1b" not in said.out and said.err == ""
    assert said.out.endswith("sluice lost nothing at the ring, stock 20 packets\n")


def test_progress_is_for_a_terminal_and_does_not_stay(bed, capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["bench", "--rounds", "1"]) == 0
    shown = capsys.readouterr().err
    assert "round 1 of 1: sluice, TCP, one stream" in shown
    assert shown.endswith("\r\x1b[K") and "\n" not in shown


def test_json_and_picture(bed: Bed, capsys, tmp_path) -> None:
    path = tmp_path / "b.svg"
    assert main(["bench", "--json", "--rounds", "1", "--svg", str(path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["lost"] for one in answer["results"]] == [5, 0, 5, 0]
    assert answer["machine"]["rounds"] == 1
    assert path.read_text().startswith("<svg ")


@pytest.mark.parametrize(
    ("name", "answer", "text", "code"),
    [
        ("is_root", False, "run it as root", 4),
        ("has_tun", False, "run: modprobe tun", 3),
        ("read_module_version", "", "run: modprobe sluice", 3),
    ],
)
def test_machine_that_is_not_suitable(
    bed: Bed, capsys, monkeypatch, name, answer, text, code
) -> None:
    monkeypatch.setattr(system, name, lambda: answer)
    assert main(["bench"]) == code
    said = capsys.readouterr()
    assert said.out == "" and text in said.err and said.err.count("\n") == 1
    assert not bed.loads


def test_picture_that_cannot_be_written_is_said_first(bed, capsys, tmp_path) -> None:
    assert main(["bench", "--svg", str(tmp_path / "none" / "b.svg")]) == 1
    assert capsys.readouterr().err.endswith("choose another place\n")
    assert not bed.loads


def test_nothing_received_is_no_result(bed, capsys, monkeypatch) -> None:
    nothing = Load(100, 0, 0, 0.0, 50, [])
    monkeypatch.setattr(testbed, "run_load", lambda *_: nothing)
    assert main(["bench"]) == 1
    assert "stock, UDP flood: nothing was received" in capsys.readouterr().err


def test_child_answers_or_says_why_not() -> None:
    with child(lambda: {"a": 1}) as one:
        assert one.answer(5) == {"a": 1}
    with child(lambda: 1 // 0) as one:
        with pytest.raises(SluiceError, match="ZeroDivisionError"):
            one.answer(5)
    with child(lambda: os.kill(os.getpid(), signal.SIGKILL)) as one:
        with pytest.raises(SluiceError, match="died"):
            one.answer(5)


def test_children_end_with_their_parent() -> None:
    """Even if it has no time to end them."""

    def parent() -> int:
        return testbed.Child(time.sleep, 600)._pid

    with child(parent) as one:
        grandchild = one.answer(5)
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{grandchild}") and time.monotonic() < deadline:
        with open(f"/proc/{grandchild}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] == "Z":
                break
        time.sleep(0.01)
    else:
        assert not os.path.exists(f"/proc/{grandchild}")
