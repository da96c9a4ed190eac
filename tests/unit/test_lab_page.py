# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a run: complete, self-contained, and honest about what lacks."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.report import page, tables
from lab.report.results import Measurement, format_run
from tests.unit.test_lab_bench import ROW, run_with, sample


def pinged_run():
    run = run_with(stock=[100, 120], upstream=[90], sluice=[130, 140])
    pings = {**sample(7), "pings_ms": [1.0, 3.0]}
    line = Measurement(2, ROW.name, "sluice", "measured", "", pings)
    return dataclasses.replace(run, measurements=[*run.measurements, line])


def test_page_has_every_part_and_needs_no_other_file() -> None:
    text = page.format_page(pinged_run())
    assert text.count("<svg") == 3
    assert "made-up row" in text and "QEMU 7.2" in text
    assert "src=" not in text and "<script" not in text


def test_page_without_pings_leaves_their_plot_out() -> None:
    assert page.format_page(run_with(stock=[1], sluice=[1])).count("<svg") == 2


def test_page_has_the_text_of_the_report() -> None:
    run = run_with(stock=[100], upstream=[90], sluice=[110])
    assert html.escape(tables.format_report(run)) in page.format_page(run)


def run_with_extra(**extra):
    run = run_with(stock=[1], sluice=[1])
    lines = [
        dataclasses.replace(m, sample={**m.sample, "extra": extra})
        for m in run.measurements
    ]
    return dataclasses.replace(run, measurements=lines)


def cells_of(run, label: str) -> list[str]:
    """What the table says behind this label."""
    (line,) = [li for li in tables.format_table(run).splitlines() if f"  {label} " in li]
    return line.partition(label)[2].split()


def test_what_a_pinned_reader_pays_is_in_the_table() -> None:
    spent = {"reader_switches": 1500.0, "reader_softirq": 2.4, "sender_softirq": 30.0}
    run = run_with_extra(**spent)
    assert cells_of(run, "reader switched/s") == ["1.50k", "-", "1.50k"]
    assert cells_of(run, "softirq, % of the reader's CPU") == ["2.40", "-", "2.40"]
    assert cells_of(run, "softirq, % of the senders' CPUs") == ["30", "-", "30"]


def test_what_a_program_pays_is_in_the_table() -> None:
    run = run_with_extra(cpu_seconds=[2.5, 1.0], seconds_until_all=9.0, retransmits=0)
    assert cells_of(run, "CPU of the program's ends, s") == ["3.50", "-", "3.50"]
    assert cells_of(run, "until all was there, s") == ["9", "-", "9"]
    assert "retransmits" not in tables.format_table(run)


def test_table_tells_what_each_variant_lost_and_its_spread() -> None:
    run = run_with(stock=[100, 120], sluice=[130, 1400])
    lossy = [
        dataclasses.replace(m, sample=sample(m.sample["value"], lost=1500))
        for m in run.measurements[:2]
    ]
    run = dataclasses.replace(run, measurements=[*lossy, *run.measurements[2:]])
    assert cells_of(run, "packets lost at the ring") == ["3.00k", "-", "0"]
    assert cells_of(run, "packets/s, 2 rounds, from-to") == ["100-120", "-", "130-1.40k"]
    assert "ping p50/p95/p99" not in tables.format_table(run)


@pytest.mark.parametrize(
    ("terminal", "no_color", "colour"),
    [(True, "", True), (True, "1", False), (False, "", False)],
)
def test_colour_is_for_a_terminal_that_wants_it(
    monkeypatch, terminal, no_color, colour
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert tables.read_colour() is colour


def test_variants_of_variants_are_plotted_and_in_the_table() -> None:
    row = dataclasses.replace(ROW, targets=[2000])
    run = run_with(row, stock=[100], sluice=[100], **{"sluice@2000": [95]})
    pings = dict.fromkeys(("ping_p50_ms", "ping_p99_ms"), 12.0)
    lines = [
        dataclasses.replace(m, sample={**m.sample, **pings})
        for m in run.measurements
    ]
    run = dataclasses.replace(run, measurements=lines)
    told = "sluice, target 2000 us: 95 (0.95x), 0 lost, ping 12/12"
    assert told in tables.format_table(run)
    assert ">2 ms<" in page.plot_tradeoff(run)
    assert page.plot_tradeoff(run_with(stock=[1], sluice=[1])) == ""


@pytest.fixture
def drawn(monkeypatch) -> Iterator[Callable[..., Any]]:
    """The axes of a plot of one row, instead of its picture."""
    monkeypatch.setattr(page, "_svg", lambda figure: figure)
    yield lambda plot, run: plot(run).axes[0]
    page.plt.close("all")


def dots(axes: Any) -> list[float]:
    """Where a plot has dots, from left to right in its data."""
    lines = [line for line in axes.lines if line.get_marker() == "o"]
    return [float(line.get_xdata()[0]) for line in lines]


def test_ratio_is_plotted_as_a_share_of_stocks_median(drawn) -> None:
    run = run_with(stock=[100, 120], upstream=[55], sluice=[110, 220])
    axes = drawn(page.plot_ratios, run)
    assert dots(axes) == [1.0, 0.5, 1.5]
    spans = [[*line.get_xdata()] for line in axes.lines if len(line.get_xdata()) == 2]
    assert [1.0, 2.0] in spans, "from the lowest to the highest"
    unmeasured = dataclasses.replace(ROW, name="other", title="other row")
    rows = dataclasses.replace(run, rows=[ROW, unmeasured])
    labels = drawn(page.plot_ratios, rows).get_yticklabels()
    assert [label.get_text() for label in labels] == ["made-up row"]


@pytest.mark.parametrize("plot", [page.plot_ratios, page.plot_losses])
def test_each_variant_has_its_colour_and_a_place_of_its_own(drawn, plot) -> None:
    axes = drawn(plot, run_with(stock=[100], upstream=[90], sluice=[110]))
    legend = axes.get_legend()
    of_legend = {
        text.get_text(): page.matplotlib.colors.to_hex(mark.get_color())
        for text, mark in zip(legend.get_texts(), legend.legend_handles)
    }
    assert of_legend == page.COLOURS
    if plot is page.plot_ratios:
        lines = [line for line in axes.lines if line.get_marker() == "o"]
        places = [float(line.get_ydata()[0]) for line in lines]
        colours = [line.get_color() for line in lines]
    else:
        places = [bar.get_y() + bar.get_height() / 2 for bar in axes.patches]
        colours = [
            page.matplotlib.colors.to_hex(bar.get_facecolor()) for bar in axes.patches
        ]
    assert colours == [*page.COLOURS.values()]
    assert places == sorted(places) and -0.5 < places[0] and places[-1] < 0.5
    assert min(b - a for a, b in zip(places, places[1:])) > 0.2


def test_without_its_files_it_says_how_it_is_called(monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["page", "result.json"])
    with pytest.raises(SystemExit, match="RESULT.json PAGE.html"):
        page.main()


def test_page_and_pictures_are_written(monkeypatch, tmp_path) -> None:
    result, written = tmp_path / "run.json", tmp_path / "page.html"
    result.write_text(format_run(pinged_run()))
    monkeypatch.setattr("sys.argv", ["page", str(result), str(written)])
    page.main()
    assert "made-up row" in written.read_text() and not [*tmp_path.glob("*.svg")]
    monkeypatch.setattr("sys.argv", ["page", str(result), str(written), str(tmp_path)])
    page.main()
    assert {one.name for one in tmp_path.glob("*.svg")} == {"lost.svg", "latency.svg"}


def curve_in(axes: Any) -> Any:
    """The only variant's that has one."""
    (curve,) = [line for line in axes.lines if len(line.get_xdata())]
    return curve


def test_losses_are_plotted_where_none_are_allowed(drawn) -> None:
    run = run_with(stock=[1], sluice=[1])
    lossy = dataclasses.replace(run.measurements[0], sample=sample(1, lost=1234567))
    run = dataclasses.replace(run, measurements=[lossy, run.measurements[1]])
    axes = drawn(page.plot_losses, run)
    assert [bar.get_width() for bar in axes.patches] == [1234567, 0]
    assert [text.get_text().strip() for text in axes.texts] == ["1.23M", "0"]
    free = dataclasses.replace(ROW, name="free", title="it may lose", lossless=False)
    rows = dataclasses.replace(run, rows=[ROW, free])
    labels = drawn(page.plot_losses, rows).get_yticklabels()
    assert [label.get_text() for label in labels] == ["made-up row"]


@pytest.mark.parametrize("answered", [1, 4, 1000])
def test_curve_of_pings_ends_at_the_share_that_was_answered(drawn, answered) -> None:
    times = [float(n + 1) for n in range(answered)]
    told = {"pings_sent": 2 * answered, "pings_received": answered}
    pinged = {**sample(1), "pings_ms": times, "extra": told}
    line = Measurement(0, ROW.name, "sluice", "measured", "", pinged)
    run = dataclasses.replace(run_with(stock=[1]), measurements=[line])
    curve = curve_in(drawn(page.plot_latency, run))
    assert (curve.get_xdata()[-1], curve.get_ydata()[-1]) == (times[-1], 0.5)
    ascending = [*curve.get_ydata()]
    assert ascending == sorted(ascending)


def test_ping_that_rounds_to_nothing_has_a_place_on_the_axis(drawn) -> None:
    pinged = {**sample(1), "pings_ms": [0.0, 2.0]}
    line = Measurement(0, ROW.name, "sluice", "measured", "", pinged)
    run = dataclasses.replace(run_with(stock=[1]), measurements=[line])
    curve = curve_in(drawn(page.plot_latency, run))
    assert min(curve.get_xdata()) == page.LEAST_MS


def test_pictures_of_the_documentation_have_its_titles(tmp_path) -> None:
    name = "udp_flood"
    row = dataclasses.replace(ROW, name=name)
    run = run_with(row, stock=[1], sluice=[1])
    lines = [
        dataclasses.replace(m, sample={**m.sample, "pings_ms": [1.0, 9.0]})
        for m in run.measurements
    ]
    page.write_pictures(dataclasses.replace(run, measurements=lines), tmp_path)
    lost, latency = ((tmp_path / f"{one}.svg").read_text() for one in ("lost", "latency"))
    assert page.LOST_ROWS[name] in lost and page.LATENCY_ROWS[name] in latency
    assert "made-up row" not in lost + latency
