# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a run: complete, self-contained, and honest about what lacks."""

from __future__ import annotations

import dataclasses

from lab.report import page, tables
from lab.report.results import Measurement
from lab.workloads import fill
from tests.unit.test_lab_bench import ROW, run_with, sample

TRACE = {"fill": [[0.0, 5], [2.0, 900]], "stops": [[1.0, 976]], "wakes": [[1.5, 480]]}


def traced_run():
    run = run_with(stock=[100, 120], upstream=[90], sluice=[130, 140])
    traced = {**sample(7), "pings_ms": [1.0, 3.0], "extra": {"trace": TRACE}}
    line = Measurement(2, ROW.name, "sluice", "measured", "", traced)
    return dataclasses.replace(run, measurements=[*run.measurements, line])


def test_page_has_every_part_and_needs_no_other_file() -> None:
    text = page.format_page(traced_run())
    assert text.count("<svg") == 4
    assert "made-up row" in text and "QEMU 7.2" in text
    assert "src=" not in text and "<script" not in text


def test_page_without_pings_and_traces_leaves_their_plots_out() -> None:
    assert page.format_page(run_with(stock=[1], sluice=[1])).count("<svg") == 2


def test_markdown_has_a_line_for_each_row_with_ratios() -> None:
    run = run_with(stock=[100], upstream=[90], sluice=[110])
    _, _, head, rule, row, *_ = page.format_markdown(run).splitlines()
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row.endswith("| 100 / 0 | 90 / 0 | 110 / 0 | 0.90x | 1.10x |")


def test_markdown_says_why_a_variant_is_missing() -> None:
    run = run_with(stock=[100], sluice=[110])
    gone = Measurement(0, ROW.name, "upstream", "skipped", "no flag", None)
    run = dataclasses.replace(run, measurements=[*run.measurements, gone])
    assert "- (skipped: no flag)" in page.format_markdown(run)


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


def test_reader_that_was_pinned_has_a_table() -> None:
    spent = {"reader_switches": 1500.0, "reader_softirq": 2.4, "sender_softirq": 30.0}
    text = page.format_markdown(run_with_extra(**spent))
    assert "1.50k / 2 / 30 | - | 1.50k / 2 / 30" in text


def test_what_a_program_pays_is_in_table_and_page() -> None:
    run = run_with_extra(cpu_seconds=[2.5, 1.0], seconds_until_all=9.0, retransmits=0)
    text = page.format_markdown(run)
    head = "| row | variant | CPU of the program's ends, s | until all was there, s |"
    assert head in text
    assert "| made-up row | stock | 3.50 | 9 |" in text
    assert "| made-up row | upstream |" not in text
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
    assert "sluice, target 2000 us | 95 | 0.95x | 0 |" in page.format_markdown(run)
    assert ">2 ms<" in page.plot_tradeoff(run)
    assert page.plot_tradeoff(run_with(stock=[1], sluice=[1])) == ""


def test_trace_lines_give_moment_event_and_fill() -> None:
    text = (
        "# tracer: nop\n"
        " pktgen-9 [001] ..s.. 12.345678: queue_stop: ifindex=2 queue=0 fill=976 "
        "size=1000 stopped_ns=0\n"
        " <idle>-0 [001] d.h.. 12.346000: queue_wake: ifindex=2 queue=0 fill=480 "
        "size=1000 stopped_ns=322000\n"
    )
    assert fill.parse_trace(text) == [
        (12.345678, "queue_stop", 976),
        (12.346, "queue_wake", 480),
    ]


def test_trace_counts_from_the_first_sample_and_ends_with_the_last() -> None:
    events = [(0.5, "queue_stop", 1), (1.5, "queue_wake", 2), (9.0, "queue_stop", 3)]
    drawn = fill.format_trace([(1.0, 10), (2.0, 20)], events)
    assert drawn == {
        "fill": [[0.0, 10], [1000.0, 20]],
        "stops": [],
        "wakes": [[500.0, 2]],
    }
