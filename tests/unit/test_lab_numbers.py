# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab concludes from its samples: losses, ratios, pings, undecided rows."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from lab import sure
from lab.checks import measure
from lab.failure import FINE, NO, LabError
from lab.guest import latency, rows
from lab.guest.child import Ending
from lab.report import results, tables
from lab.report.markdown import refresh
from lab.report.results import HostLoad, Measurement, Provenance, Run, parse_run, read_run
from lab.report.tables import all_findings
from lab.row import Row, Sample
from lab.variants import parse_variant

TREE = Path(__file__).resolve().parents[2]
ROW = Row(name="fake", title="made-up row", unit="packets/s", floor=1.0)
PROVENANCE = Provenance(
    date="2026-01-01T00:00:00+00:00", kernel="7.3", kernel_package="linux-image-7.3.4 1",
    module_commit="0" * 40, module_dirty=False, host_cpu="X", host_cpus=2,
    accelerator="TCG", qemu_version="QEMU 7.2", qemu_command=["qemu"], vcpus=4,
    memory_mb=2048, boot_id="one", command_line=["python3"], other_load_percent=1.0,
)


def sample(value: float, lost: int = 0) -> dict[str, Any]:
    counts = {"sent": 9 + lost, "read": 9, "qdisc_drops": 0, "lost_at_ring": lost}
    return Sample(value=value, **counts).to_json()


def run_with(row: Row = ROW, **values: list[float]) -> Run:
    """A run whose variants have these values, one for each round."""
    lines = [
        Measurement(number, row.name, variant, "measured", "", sample(value))
        for variant, numbers in values.items()
        for number, value in enumerate(numbers)
    ]
    return Run(PROVENANCE, [row], lines, len(lines))


def with_facts(run: Run, facts: dict[str, dict[str, Any]]) -> Run:
    """The run, in which the samples of these variants have these facts, too."""
    lines = [
        dataclasses.replace(m, sample={**m.sample, **facts.get(m.variant, {})})
        for m in run.measurements
    ]
    return dataclasses.replace(run, measurements=lines)


def pinged(run: Run, **p50_ms: float | None) -> Run:
    return with_facts(run, {v: {"ping_p50_ms": ms} for v, ms in p50_ms.items()})


def told(run: Run, demand: str = "") -> list[tuple[str, str]]:
    """What was found, and the verdict, of the demands with this word."""
    found = tables.findings_of(run, run.rows[0])
    return [(one.got, one.verdict) for one in found if demand in one.demand]


def verdicts(run: Run, demand: str = "") -> list[str]:
    return [verdict for _, verdict in told(run, demand)]


@pytest.mark.parametrize(("floor", "stock", "sluice", "verdict"), [
    (1.0, [100, 104], [99, 101], "reached"),  # they overlap
    (1.3, [100, 104], [99, 101], "SHORT"),
    (1.0, [70, 100], [55, 75], "SHORT"),  # a wide spread excuses nothing
    (1.0, [100, 200, 100], [60, 61, 62], "not decided"),
    (1.0, [100, 110, 100], [60, 61, 62], "SHORT"),
])
def test_rate_is_compared_with_stocks(floor, stock, sluice, verdict) -> None:
    row = dataclasses.replace(ROW, floor=floor)
    run = run_with(row, stock=stock, upstream=[1] * len(stock), sluice=sluice)
    assert verdicts(run, "stock") == [verdict]


def test_what_was_not_measured_is_short() -> None:
    run = run_with(stock=[1])
    lost = Measurement(0, "fake", "sluice", "lost", "no answer", None)
    run = dataclasses.replace(run, measurements=[*run.measurements, lost], planned=2)
    assert not run.complete and "SHORT" in verdicts(run)
    assert not Run(PROVENANCE, [], [], 0).complete, "nothing was planned"
    series = run_with(ROW.with_patched(series=True, slots=False), stock=[1], sluice=[1])
    assert ("series not reached", "SHORT") in told(series, "a measurement")


@pytest.mark.parametrize(("parameters", "others"), [
    ([], ("slots", "series")),
    (["target_us=0"], ("slots", "series@0")),
    (["target_us=0", "direct_call=0"], ()),
])
def test_patched_drivers_are_built_as_the_row_needs_them(parameters, others) -> None:
    row = dataclasses.replace(ROW, parameters=parameters).with_patched(True, True)
    assert row.others == others
    assert all(parse_variant(one).drivers == one for one in others)


def test_of_the_first_patches_only_losses_are_asked() -> None:
    row = ROW.with_patched(series=False, slots=True)
    run = run_with(row, stock=[9, 9, 9], sluice=[9, 9, 9], slots=[1, 1, 1])
    asked = [one.demand for one in all_findings(run) if "slots" in one.row]
    assert asked == ["0 lost at the ring"]


@pytest.mark.parametrize(("facts", "found"), [
    ({"lost_at_ring": 3}, "9 lost"),
    ({"unaccounted": 1}, "3 are not"),
    ({"unaccounted": -2}, "6 are not"),
])
def test_lost_or_stray_packet_is_short_whatever_the_samples(facts, found) -> None:
    row = dataclasses.replace(ROW, targets=[2000])
    values = {"stock": [100, 200, 100], "sluice": [60, 61, 62], "sluice@2000": [60] * 3}
    run = with_facts(run_with(row, **values), {"sluice": facts})
    assert (found, "SHORT") in told(run)
    allowed = dataclasses.replace(run, rows=[dataclasses.replace(row, lossless=False)])
    assert ("9 lost", "SHORT") not in told(allowed)


@pytest.mark.parametrize(("stock_ms", "sluice_ms", "answered", "verdict"), [
    (50, 30.0, (100, 100), "reached"),  # without the path's own 20 ms
    (50, 31.0, (100, 100), "SHORT"),
    (50, 30.0, (10, 90), "reached"),
    (50, 30.0, (90, 10), "SHORT"),  # most of its pings were lost
    (50, 30.0, (10, 10), "SHORT"),
    (50, None, (100, 100), "SHORT"),
])
def test_latency_is_a_share_of_stocks(stock_ms, sluice_ms, answered, verdict) -> None:
    row = dataclasses.replace(ROW, floor=None, latency_share=1 / 3, path_ms=20)
    run = pinged(run_with(row, stock=[1], sluice=[1]), stock=stock_ms, sluice=sluice_ms)
    back = dict(zip(("stock", "sluice"), answered))
    run = with_facts(run, {
        variant: {"extra": {"pings_sent": 100, "pings_received": number}}
        for variant, number in back.items()
    })
    assert verdicts(run, "ping") == [verdict]


def test_only_a_short_row_or_a_missing_sample_fails_the_bench() -> None:
    good = run_with(stock=[100], upstream=[1], sluice=[100])
    assert measure.bench_status(good) == FINE
    assert measure.bench_status(run_with(stock=[100], sluice=[90])) == NO
    assert measure.bench_status(dataclasses.replace(good, planned=9)) == NO
    assert measure.bench_status(dataclasses.replace(good, trouble=["BUG: x"])) == NO


def test_samples_that_disagree() -> None:
    far = ([100, 151], [10, 10, 100, 102, 1000])
    near = ([100, 149], [100], [10, 100, 101, 102, 1000], [0, 0])
    assert all(map(sure.disagree, far)) and not any(map(sure.disagree, near))


def test_interval_of_a_ratio() -> None:
    stock = dict(enumerate([80.0, 90, 100, 110, 120]))
    low, high = sure.ratio_interval({0: 60, 1: 75, 2: 90, 3: 105, 4: 120}, stock)
    assert 60 / 120 <= low < 0.9 < high <= 120 / 80
    half = {number: value / 2 for number, value in stock.items()}
    assert sure.ratio_interval(half, stock) == (0.5, 0.5), "a slow round slows both"
    assert sure.ratio_interval({0: 1.0}, stock) is None, "too few rounds"
    assert sure.ratio({0: 1.0}, {1: 1.0}) is sure.ratio({0: 1.0}, {0: 0.0}) is None
    assert sure.is_within((0.98, 1.02), 0.03) and not sure.is_within((0.9, 1.0), 0.03)
    assert not sure.is_within(None, 0.03)


def test_summary_is_median_and_spread() -> None:
    summary = results.summarise(run_with(stock=[1, 9, 4]), "fake", "stock")
    assert (summary.median, summary.low, summary.high) == (4, 1, 9)
    assert [latency.percentile(range(100, 0, -1), p) for p in (50, 99, 0)] == [50, 99, 1]
    assert latency.percentile([], 50) is None


@pytest.mark.parametrize(("ending", "status", "reason"), [
    (Ending(answer={"value": 1}), "measured", ""),
    (Ending(lost=True, message="died"), "lost", "died"),
    (Ending(error="Skipped", message="no flag"), "skipped", "no flag"),
    (Ending(error="OSError", message="x"), "failed", "x"),
])
def test_line_says_how_its_sample_ended(ending, status, reason) -> None:
    line = rows.measurement((3, "fake", "stock"), ending)
    assert (line["status"], line["reason"]) == (status, reason)
    assert line["sample"] == ending.answer


def test_sample_accounts_for_every_packet() -> None:
    counts = {"qdisc_drops": 3, "lost_at_ring": 2, "held": 1}
    assert Sample(value=1, sent=10, read=4, **counts).unaccounted == 0
    some = Sample(value=1, sent=10, read=4, qdisc_drops=0, lost_at_ring=0)
    assert some.unaccounted == some.to_json()["unaccounted"] == 6


@pytest.mark.parametrize(
    ("seconds", "busy", "ours", "percent"),
    [(10, 12, 8, 20.0), (10, 7, 8, 0.0), (1, 2, 0, 100.0)],
)
def test_busy_host_is_said(monkeypatch, seconds, busy, ours, percent) -> None:
    monkeypatch.setattr(results.os, "cpu_count", lambda: 2)
    reads = iter([(100.0, 30.0), (100.0 + seconds, 30.0 + busy - ours)])
    monkeypatch.setattr(HostLoad, "_read", staticmethod(lambda: next(reads)))
    load = HostLoad().read_others_percent()
    assert load == percent
    facts = dataclasses.replace(PROVENANCE, other_load_percent=load)
    text = tables.format_table(dataclasses.replace(run_with(stock=[1]), provenance=facts))
    assert ("NOT QUIET" in text) is (percent > 0)


def test_run_survives_json_and_garbage_is_refused() -> None:
    run = run_with(stock=[1], sluice=[2])
    skipped = Measurement(0, "fake", "upstream", "skipped", "no flag", None)
    run = dataclasses.replace(run, measurements=[*run.measurements, skipped])
    text = results.format_run(run)
    assert parse_run(text) == run
    old = json.loads(text)
    old["rows"][0]["once_there"] = 3
    assert parse_run(json.dumps(old)) == run
    with pytest.raises(LabError, match="not a run of rows"):
        parse_run("{}")


def test_tables_in_docs_are_those_of_their_results() -> None:
    tables_found = 0
    for page in sorted((TREE / "docs").glob("*.md")):
        text = page.read_text()
        fresh = refresh(text, lambda name: read_run(TREE / name))
        assert fresh == text, f"{page.name}: run python3 -m lab tables"
        tables_found += text.count("<!-- lab/results/")
    assert tables_found >= 1


@pytest.mark.parametrize(("others", "stock", "sluice", "verdict"), [
    (1.0, 10.0, 9.0, "SHORT"),
    (1.0, 9.0, 9.0, "not decided"),  # the host does not keep the reader's pace
    (65.0, 10.0, 9.0, "not decided"),  # nor where others have the CPUs
    (65.0, 10.0, 10.0, "reached"),
])
def test_rate_of_a_paced_reader_counts_on_a_quiet_host(
    others: float, stock: float, sluice: float, verdict: str
) -> None:
    row = dataclasses.replace(ROW, pace=10.0, floor=0.95, lossless=False)
    run = run_with(row, stock=[stock], sluice=[sluice])
    facts = dataclasses.replace(PROVENANCE, other_load_percent=others)
    (one,) = tables.all_findings(dataclasses.replace(run, provenance=facts))
    assert one.verdict == verdict
