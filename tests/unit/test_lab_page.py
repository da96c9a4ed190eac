# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a run: complete, self-contained, and honest about what lacks."""

from __future__ import annotations

import dataclasses

from lab.report import page, tables
from lab.report.results import Measurement
from tests.unit.test_lab_bench import ROW, run_with, sample


def pinged_run():
    run = run_with(stock=[100, 120], upstream=[90], sluice=[130, 140])
    pings = {**sample(7), "pings_ms": [1.0, 3.0]}
    line = Measurement(2, ROW.name, "sluice", "measured", "", pings)
    return dataclasses.replace(run, measurements=[*run.measurements, line])


def lines_of(run) -> list[str]:
    """The lines of all tables, heads included, their cells joined by bars."""
    return [
        " | ".join(cells)
        for _, head, body in page.tables(run)
        for cells in (head, *body)
    ]


def test_page_has_every_part_and_needs_no_other_file() -> None:
    text = page.format_page(pinged_run())
    assert text.count("<svg") == 3
    assert "made-up row" in text and "QEMU 7.2" in text
    assert "src=" not in text and "<script" not in text


def test_page_without_pings_leaves_their_plot_out() -> None:
    assert page.format_page(run_with(stock=[1], sluice=[1])).count("<svg") == 2


def test_table_has_a_line_for_each_row_with_ratios() -> None:
    head, row = lines_of(run_with(stock=[100], upstream=[90], sluice=[110]))
    assert head.count("|") == row.count("|")
    assert row.endswith("| 100 / 0 | 90 / 0 | 110 / 0 | 0.90x | 1.10x")


def test_table_says_why_a_variant_is_missing() -> None:
    run = run_with(stock=[100], sluice=[110])
    gone = Measurement(0, ROW.name, "upstream", "skipped", "no flag", None)
    run = dataclasses.replace(run, measurements=[*run.measurements, gone])
    assert " | - (skipped: no flag) | " in lines_of(run)[1]


def test_tables_without_figures_are_left_out() -> None:
    titles = [table[0] for table in page.tables(run_with(stock=[1], sluice=[1]))]
    assert titles == ["Median / packets lost at the ring in all rounds"]


def run_with_extra(**extra):
    run = run_with(stock=[1], sluice=[1])
    lines = [
        dataclasses.replace(m, sample={**m.sample, "extra": extra})
        for m in run.measurements
    ]
    return dataclasses.replace(run, measurements=lines)


def test_what_a_pinned_reader_pays_is_in_the_table() -> None:
    spent = {"reader_switches": 1500.0, "reader_softirq": 2.4, "sender_softirq": 30.0}
    lines = lines_of(run_with_extra(**spent))
    assert "made-up row | sluice | 1.50k | 2.40 | 30" in lines


def test_what_a_program_pays_is_in_table_and_page() -> None:
    run = run_with_extra(cpu_seconds=[2.5, 1.0], seconds_until_all=9.0, retransmits=0)
    lines = lines_of(run)
    told = "CPU of the program's ends, s | until all was there, s"
    assert f"row | variant | {told}" in lines
    assert "made-up row | stock | 3.50 | 9" in lines
    assert not any(line.startswith("made-up row | upstream") for line in lines)
    (line,) = [li for li in tables.format_table(run).splitlines() if "until all" in li]
    assert line.split()[-3:] == ["9", "-", "9"]


def test_variants_of_variants_are_plotted_and_have_a_table() -> None:
    row = dataclasses.replace(ROW, targets=[2000])
    run = run_with(row, stock=[100], sluice=[100], **{"sluice@2000": [95]})
    pings = dict.fromkeys(("ping_p50_ms", "ping_p95_ms", "ping_p99_ms"), 12.0)
    lines = [
        dataclasses.replace(m, sample={**m.sample, **pings})
        for m in run.measurements
    ]
    run = dataclasses.replace(run, measurements=lines)
    assert any("sluice, target 2000 us | 95 | 0.95x | 0 |" in li for li in lines_of(run))
    assert ">2 ms<" in page.plot_tradeoff(run)
    assert page.plot_tradeoff(run_with(stock=[1], sluice=[1])) == ""
