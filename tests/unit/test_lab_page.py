# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a run: complete, self-contained, and honest about what lacks."""

from __future__ import annotations

import dataclasses
import html

from lab.report import page, tables
from lab.report.results import Measurement
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
