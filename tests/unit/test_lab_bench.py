# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of a bench, its numbers and its table, with a made-up workload."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest

from lab import workloads
from lab.checks import measure
from lab.failure import LabError
from lab.guest import env, rows
from lab.guest.child import Ending
from lab.machines.matrix import kernel_named
from lab.machines.native.boot import ACCELERATOR, parse_busy_ticks
from lab.machines.roots import Root
from lab.machines.vm import VmLost
from lab.report import results, tables
from lab.report.results import Measurement, Provenance, Run, parse_run
from lab.report.tables import WIDTH, format_number, format_table
from lab.row import Row, Sample, Skipped, Workload, parse_variant
from lab.sure import disagree, ratio_interval
from lab.workloads import all_workloads

ROW = Row(name="fake", title="made-up row", unit="packets/s", floor=1.0)
PROVENANCE = Provenance(
    date="2026-01-01T00:00:00+00:00",
    kernel="7.3",
    kernel_package="linux-image-7.3.4 7.3.4-1",
    module_commit="0" * 40,
    module_dirty=False,
    host_cpu="X",
    host_cpus=2,
    accelerator="TCG",
    qemu_version="QEMU 7.2",
    qemu_command=["qemu"],
    vcpus=4,
    memory_mb=2048,
    boot_id="one",
    command_line=["python3"],
    other_load_percent=1.0,
)


def sample(value: float, lost: int = 0) -> dict:
    return Sample(
        value=value, sent=9 + lost, read=9, qdisc_drops=0, lost_at_ring=lost
    ).to_json()


def run_with(row: Row = ROW, **values: list[float]) -> Run:
    """A run whose variants have these values, one for each round."""
    lines = [
        Measurement(number, row.name, variant, "measured", "", sample(value))
        for variant, numbers in values.items()
        for number, value in enumerate(numbers)
    ]
    return Run(PROVENANCE, [row], lines, len(lines))


def test_variants_rotate_with_the_round() -> None:
    plans = [[p[2] for p in rows.schedule_round([ROW], n)] for n in (0, 1)]
    assert plans[0] == ["stock", "upstream", "sluice"]
    assert plans[1] == ["upstream", "sluice", "stock"]


def test_rings_are_measured_in_turn_with_the_variants() -> None:
    row = dataclasses.replace(ROW, rings=[50])
    plans = [[p[2] for p in rows.schedule_round([row], n)] for n in (0, 1)]
    assert plans[0] == ["stock", "upstream", "sluice", "stock-50"]
    assert plans[1] == ["upstream", "sluice", "stock-50", "stock"]


def test_variants_of_variants_are_named_by_what_is_different() -> None:
    row = dataclasses.replace(ROW, rings=[50], targets=[2000])
    assert row.variants[3:] == ("stock-50", "sluice@2000")
    shallow, held = (parse_variant(name) for name in row.others)
    assert (shallow.base, shallow.ring, shallow.target_us) == ("stock", 50, None)
    assert (held.base, held.ring, held.target_us) == ("sluice", None, 2000)
    assert str(held) == "sluice, target 2000 us"
    assert str(parse_variant("sluice")) == "sluice"


def test_the_series_is_compared_with_stock_and_with_the_module() -> None:
    row = ROW.with_series()
    assert row.variants == ("stock", "upstream", "sluice", "series")
    of_parameters = dataclasses.replace(ROW, parameters=["target_us=0"])
    assert of_parameters.with_series().variants == ("stock", "upstream", "sluice")
    rates = {"stock": [100, 101], "sluice": [99, 98]}
    equal = tables.findings_of(run_with(row, **rates, series=[100, 102]), row)
    slow = tables.findings_of(run_with(row, **rates, series=[90, 89]), row)
    absent = tables.findings_of(run_with(row, **rates), row)
    name = f"{ROW.name}, series"
    of_series = [[f for f in found if f.row == name] for found in (equal, slow, absent)]
    assert all(finding.reached for finding in of_series[0])
    demands = [f.demand for f in of_series[1] if not f.reached]
    assert demands == ["at least 1.00x stock", "at least sluice"]
    assert [f.demand for f in of_series[2]] == ["a measurement"]


def test_the_cover_letter_has_a_line_for_each_of_its_rows_with_the_series() -> None:
    row = dataclasses.replace(ROW, series=True)
    stock, series = [100.0] * 5, [96.0, 97.0, 98.0, 99.0, 100.0]
    of_each = {"stock": stock, "upstream": [50.0] * 5, "series": series}
    text = tables.format_for_cover(run_with(row, **of_each), [row.name])
    (line,) = [line for line in text.splitlines() if line.startswith("fake")]
    assert line.split() == "fake 100 0.50x 0.50-0.50 0.98x 0.96-1.00 -/-/-".split()
    assert max(len(line) for line in text.splitlines()) <= 76
    text = tables.format_for_cover(run_with(row, stock=stock, series=series), ["fake"])
    assert "fake 100 - 0.98x 0.96-1.00" in " ".join(text.split())
    assert tables.format_for_cover(run_with(ROW, stock=stock), ["fake"]) == ""
    assert tables.format_for_cover(run_with(row, **of_each), ["another"]) == ""


@pytest.fixture
def fake_workload(monkeypatch):
    """A workload that needs no kernel."""

    def run(variant, seconds, env):
        if variant == "upstream":
            raise Skipped("no flag")
        return Sample(value=5, sent=1, read=1, qdisc_drops=0, lost_at_ring=0)

    monkeypatch.setattr(workloads, "by_command", lambda: {"": [Workload(ROW, run)]})
    monkeypatch.setattr(env.GuestEnv, "variant", _variant)


class _variant:
    def __init__(self, *_):
        pass

    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


def test_bench_measures_skips_and_reports(monkeypatch, fake_workload) -> None:
    monkeypatch.setattr(rows, "background_ping", contextlib.nullcontext)
    monkeypatch.setattr(rows, "unload", lambda: None)
    said, written = [], []
    job = {"rows": ["fake"], "rounds": 2, "seconds": 0.1, "counted": False}
    status, _ = rows.run_bench(job, written.append, said.append)
    assert status == 0 and len(said) == 6
    assert "[2/6] fake, upstream: skipped: no flag" in said
    assert "[3/6] fake, sluice: 5, 0 lost at the ring" in said
    states = [line["status"] for line in written[-1]["measurements"]]
    assert sorted(states) == ["measured"] * 4 + ["skipped"] * 2
    run = results.run_of(PROVENANCE, written[-1], [])
    assert run.complete
    assert "upstream: skipped: no flag" in format_table(run)


def test_summary_is_median_and_spread() -> None:
    summary = results.summarise(run_with(stock=[1, 9, 4]), "fake", "stock")
    assert (summary.median, summary.low, summary.high) == (4, 1, 9)


def test_run_survives_json() -> None:
    run = run_with(stock=[1], sluice=[2])
    skipped = Measurement(0, "fake", "upstream", "skipped", "no flag", None)
    run = dataclasses.replace(run, measurements=[*run.measurements, skipped])
    assert parse_run(results.format_run(run)) == run


def test_run_of_rows_that_had_more_fields_is_read() -> None:
    run = run_with(stock=[1], sluice=[2])
    old = json.loads(results.format_run(run))
    old["rows"][0]["once_there"] = 3
    assert parse_run(json.dumps(old)) == run


def test_garbage_is_refused() -> None:
    with pytest.raises(LabError, match="not a run of rows"):
        parse_run("{}")


def test_overlap_counts_as_stock_only_where_stock_is_the_floor() -> None:
    near = run_with(stock=[100, 104], upstream=[1, 1], sluice=[99, 101])
    assert all(f.reached for f in tables.findings_of(near, ROW))
    row = dataclasses.replace(ROW, floor=1.3)
    flood = run_with(row, stock=[100, 104], upstream=[1, 1], sluice=[99, 101])
    assert not all(f.reached for f in tables.findings_of(flood, row))


def test_wide_spread_excuses_no_low_median() -> None:
    noisy = run_with(stock=[60, 100], upstream=[1, 1], sluice=[50, 80])
    assert not all(f.reached for f in tables.findings_of(noisy, ROW))


def test_ratio_of_five_rounds_has_an_interval_around_it() -> None:
    run = run_with(stock=[80, 90, 100, 110, 120], sluice=[60, 75, 90, 105, 120])
    stock, sluice = (results.summarise(run, "fake", v) for v in ("stock", "sluice"))
    low, high = ratio_interval(sluice.values, stock.values)
    assert 60 / 120 <= low < 0.9 < high <= 120 / 80
    assert ratio_interval(sluice.values, stock.values) == (low, high)
    told = f"0.900x ({low:.2f}-{high:.2f}, 90 % sure)"
    assert told in [finding.got for finding in tables.findings_of(run, ROW)]
    assert f"{low:.2f}-{high:.2f}" in format_table(run)


def test_floor_may_be_that_of_stock_with_a_ring_that_loses_little() -> None:
    row = dataclasses.replace(ROW, floor=0.97, lossless_ring=8000)
    values = {"stock": [100] * 5, "upstream": [1] * 5, "sluice": [90] * 5}
    for others, reached in ((89, True), (99, False)):
        run = run_with(row, **values, **{"stock-8000": [others] * 5})
        found = [f for f in tables.findings_of(run, row) if "stock" in f.demand]
        assert [f.reached for f in found] == [reached]
        assert "with a ring of 8000" in found[0].got


def test_ratio_without_spread_has_an_interval_without_width() -> None:
    run = run_with(stock=[100] * 5, sluice=[50] * 5)
    stock, sluice = (results.summarise(run, "fake", v) for v in ("stock", "sluice"))
    assert ratio_interval(sluice.values, stock.values) == (0.5, 0.5)


def test_few_rounds_have_no_interval() -> None:
    run = run_with(stock=[100] * 5, sluice=[50] * 4)
    stock, sluice = (results.summarise(run, "fake", v) for v in ("stock", "sluice"))
    assert ratio_interval(sluice.values, stock.values) is None
    assert tables.format_interval(sluice, None) == ""
    assert "sure" not in format_table(run)


def test_busy_host_is_said() -> None:
    loud = dataclasses.replace(PROVENANCE, other_load_percent=40.0)
    run = dataclasses.replace(run_with(stock=[1]), provenance=loud)
    assert "NOT QUIET" in format_table(run)


def test_busy_ticks_leave_out_idle_and_iowait() -> None:
    assert parse_busy_ticks("cpu  1 2 4 1000 500 8 16 32 0 0\n") == 63


def test_lost_packet_is_short() -> None:
    run = run_with(stock=[1], upstream=[1], sluice=[1])
    lossy = dataclasses.replace(run.measurements[2], sample=sample(1, lost=3))
    run = dataclasses.replace(run, measurements=[*run.measurements[:2], lossy])
    assert tables.findings_of(run, ROW)[0].got == "3 lost"


def test_stray_packet_is_short() -> None:
    run = run_with(stock=[1], upstream=[1], sluice=[1])
    stray = dict(sample(1), unaccounted=-2)
    stray = dataclasses.replace(run.measurements[0], sample=stray)
    run = dataclasses.replace(run, measurements=[stray, *run.measurements[1:]])
    assert "2 are not" in [f.got for f in tables.findings_of(run, ROW)]


def test_missing_variant_is_short_and_not_complete() -> None:
    run = run_with(stock=[1])
    lost = Measurement(0, "fake", "sluice", "lost", "no answer", None)
    run = dataclasses.replace(run, measurements=[*run.measurements, lost], planned=2)
    assert not run.complete
    assert not tables.findings_of(run, ROW)[0].reached


def test_nothing_planned_is_not_complete() -> None:
    assert not Run(PROVENANCE, [], [], 0).complete


def test_table_fits_the_terminal() -> None:
    run = run_with(stock=[123456, 234567], upstream=[1.5, 2.5], sluice=[9e9, 9e9])
    for line in format_table(run).splitlines():
        assert len(line) <= WIDTH, line


def test_long_title_is_whole_and_leaves_room_for_its_values() -> None:
    row = dataclasses.replace(ROW, title="OpenVPN 8 TCP, 120 ms 10 Mbit/s, ring of 1000")
    text = format_table(run_with(row, stock=[8.5], sluice=[8.5]))
    title, values = text.splitlines()[1:3]
    assert title == row.title and values.split()[0] == "8.50"


def test_pings_of_seconds_stand_apart() -> None:
    row = dataclasses.replace(ROW, latency_share=1 / 3)
    run = run_with(row, stock=[1], upstream=[1], sluice=[1])
    long = {"ping_p50_ms": 1493.0, "ping_p99_ms": 1343.0}
    lines = [
        dataclasses.replace(m, sample={**m.sample, **long}) for m in run.measurements
    ]
    text = format_table(dataclasses.replace(run, measurements=lines))
    assert text.count(" 1493/1343") == 3


def test_findings_are_told_to_their_last_word() -> None:
    name = "openvpn_tcp_8_120ms_10mbit_ring1000, 2000 us"
    finding = tables.Finding(name, "ping at most 0.33x stock's", "53 of 55 ms", False)
    text = tables.format_findings([finding], colour=False)
    assert all(len(line) <= WIDTH for line in text.splitlines())
    assert " ".join(text.split()).startswith(f"SHORT {name}: {finding.demand}: 53 of 55")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (365.4, "365"), (0.944, "0.94"), (1.28e6, "1.28M"), (999.96, "1.00k")],
)
def test_numbers_are_short(value, text) -> None:
    assert format_number(value) == text


def pinged(run: Run, **p50_ms: float) -> Run:
    """The run, with these medians of the ping."""
    lines = [
        dataclasses.replace(m, sample={**m.sample, "ping_p50_ms": p50_ms[m.variant]})
        for m in run.measurements
    ]
    return dataclasses.replace(run, measurements=lines)


def answered(run: Run, **percent: int) -> Run:
    """The run, of whose pings as many were answered."""
    lines = [
        dataclasses.replace(m, sample={**m.sample, "extra": extra})
        for m in run.measurements
        for extra in [{"pings_sent": 100, "pings_received": percent[m.variant]}]
    ]
    return dataclasses.replace(run, measurements=lines)


@pytest.mark.parametrize(("sluice_ms", "reached"), [(30.0, True), (31.0, False)])
def test_latency_is_judged_without_the_paths_own(sluice_ms, reached) -> None:
    row = dataclasses.replace(ROW, floor=None, latency_share=1 / 3, path_ms=20)
    run = pinged(run_with(row, stock=[1], sluice=[1]), stock=50, sluice=sluice_ms)
    finding = tables.findings_of(run, row)[-1]
    assert finding.reached is reached, finding


@pytest.mark.parametrize(
    ("stock", "sluice", "got", "reached"),
    [
        (10, 90, "30 ms of no answer", True),
        (10, 10, "no answer of no answer", False),
        (90, 10, "no answer of 50 ms", False),
        (60, 90, "30 ms of 50 ms", False),  # stock's answers are most of its pings
    ],
)
def test_a_ping_that_is_lost_is_no_short_one(stock, sluice, got, reached) -> None:
    row = dataclasses.replace(ROW, floor=None, latency_share=1 / 3)
    run = pinged(run_with(row, stock=[1], sluice=[1]), stock=50, sluice=30)
    run = answered(run, stock=stock, sluice=sluice)
    finding = tables.findings_of(run, row)[-1]
    assert (finding.got, finding.reached) == (got, reached)


@pytest.mark.parametrize(
    ("demanded", "upstream", "sluice", "demand", "reached"),
    [
        ("above_upstream", 100, 101, "above upstream", True),
        ("above_upstream", 100, 100, "above upstream", False),
        ("reaches_upstream", 100, 100, "at least upstream", True),
        ("reaches_upstream", 100, 90, "at least upstream", False),
        ("prompt", 100, 1, "upstream", None),
    ],
)
def test_only_what_is_demanded_is_compared_with_upstream(
    demanded, upstream, sluice, demand, reached
) -> None:
    row = dataclasses.replace(ROW, **{"floor": None, demanded: True})
    run = run_with(row, stock=[1], upstream=[upstream], sluice=[sluice])
    run = pinged(run, stock=50, upstream=50, sluice=50)
    found = [f.reached for f in tables.findings_of(run, row) if f.demand == demand]
    assert found == ([] if reached is None else [reached])


@pytest.mark.parametrize(
    ("p50", "p99", "reached"),
    [(10, 33, [True, True]), (11, 33, [False, True]), (10, 34, [True, False])],
)
def test_prompt_ping_is_a_fifth_and_its_worst_a_third(p50, p99, reached) -> None:
    row = dataclasses.replace(ROW, floor=None, prompt=True)
    lines = [
        dataclasses.replace(m, sample={**m.sample, "ping_p50_ms": a, "ping_p99_ms": b})
        for m in run_with(row, stock=[1], upstream=[1], sluice=[1]).measurements
        for a, b in [(p50, p99) if m.variant == "sluice" else (50, 100)]
    ]
    run = Run(PROVENANCE, [row], lines, 3)
    for other in ("stock", "upstream"):
        found = [f for f in tables.findings_of(run, row) if f.demand.endswith(other)]
        assert [f.reached for f in found] == reached, found
    (silent,) = [
        f
        for f in tables.findings_of(pinged(run, stock=5, upstream=5, sluice=None), row)
        if f.demand == "ping p50 at most 0.20x stock"
    ]
    assert (silent.got, silent.reached) == ("no answer of 5 ms", False)


def test_loss_is_no_finding_where_it_is_allowed() -> None:
    row = dataclasses.replace(ROW, lossless=False)
    run = run_with(row, stock=[1], sluice=[1])
    lossy = dataclasses.replace(run.measurements[1], sample=sample(1, lost=9))
    run = dataclasses.replace(run, measurements=[run.measurements[0], lossy])
    assert [f.got for f in tables.findings_of(run, row)] == ["1.00x"]


def test_native_run_tells_what_limits_it() -> None:
    run = run_with(stock=[1, 1, 1])
    assert "stands in for ftrace" not in format_table(run)
    late_us = ([8, 16], [16, 64], [32, 512])
    lines = [
        dataclasses.replace(m, sample={**m.sample, "extra": extra})
        for m, late in zip(run.measurements, late_us, strict=True)
        for extra in [
            {
                "system_call_us": 9.0,
                "timer_us": 41.0,
                "late_us": dict(zip(("p50", "p99"), late)),
            }
        ]
    ]
    facts = dataclasses.replace(PROVENANCE, accelerator=ACCELERATOR)
    text = format_table(dataclasses.replace(run, measurements=lines, provenance=facts))
    assert "hook     a call at the entry of tun_net_xmit() stands in for ftrace" in text
    assert "a system call takes 9 us" in text
    assert "timers   one takes 41 us" in text
    assert "late by p50 16, p99 64 us at most (median sample)" in text


def test_verdicts_have_colours_of_their_own() -> None:
    findings = [
        tables.Finding("row", "a demand", "it", reached, decided=decided)
        for reached, decided in ((True, True), (False, True), (True, False))
    ]
    lines = tables.format_findings(findings, colour=True).splitlines()
    starts = [line.partition("m")[0] for line in lines[:3]]
    assert len(set(starts)) == 3 and all(line.endswith("\033[0m") for line in lines[:3])
    assert lines[1].startswith("\033[31mSHORT")
    assert "\033" not in tables.format_findings(findings, colour=False)
    assert lines[3] == "1 of 3 figures reached, 1 not decided: the samples disagree"


def test_lost_pings_are_told() -> None:
    row = dataclasses.replace(ROW, targets=[2000])
    run = run_with(row, stock=[1], sluice=[1], **{"sluice@2000": [1]})
    nearly = answered(run, **{"stock": 90, "sluice": 97, "sluice@2000": 91})
    assert "answered" not in format_table(nearly)
    few = answered(run, **{"stock": 15, "sluice": 97, "sluice@2000": 9})
    lines = [line.split() for line in format_table(few).splitlines()]
    assert ["pings", "answered,", "%", "15", "-", "97"] in lines
    assert any(line[-3:] == ["9", "%", "back"] for line in lines)


def test_latency_is_that_of_the_ring_held_to_a_time_if_there_is_one() -> None:
    row = dataclasses.replace(ROW, floor=None, latency_share=1 / 3, targets=[2000])
    samples = {"stock": [1], "sluice": [1], "sluice@2000": [1]}
    pings = {"stock": 30, "sluice": 30, "sluice@2000": 9}
    run = pinged(run_with(row, **samples), **pings)
    latency = [f for f in tables.findings_of(run, row) if "ping" in f.demand]
    assert [(f.row, f.reached) for f in latency] == [(f"{row.name}, sluice@2000", True)]


def test_a_ring_held_to_a_time_owes_what_the_whole_one_does() -> None:
    row = dataclasses.replace(ROW, floor=0.97, targets=[2000, 500])
    run = run_with(row, stock=[100], sluice=[100], **{"sluice@2000": [90]})
    short = [f for f in tables.findings_of(run, row) if not f.reached]
    assert [(f.row, f.got) for f in short] == [
        (f"{row.name}, sluice@2000", "0.900x"),
        (f"{row.name}, sluice@500", "sluice@500 not reached"),
    ]


def test_every_variants_packets_are_accounted_for() -> None:
    row = dataclasses.replace(ROW, targets=[2000])
    run = run_with(row, stock=[1], sluice=[1], **{"sluice@2000": [1]})
    last = run.measurements[-1]
    stray = dataclasses.replace(last, sample={**last.sample, "unaccounted": 1})
    run = dataclasses.replace(run, measurements=[*run.measurements[:-1], stray])
    short = [f for f in tables.findings_of(run, row) if not f.reached]
    assert [(f.demand, f.got) for f in short] == [
        ("every packet accounted for", "1 are not")
    ]


def test_table_shows_stock_with_other_rings() -> None:
    row = dataclasses.replace(ROW, rings=[50, 10000])
    run = run_with(row, stock=[100], sluice=[100], **{"stock-50": [80]})
    text = format_table(run)
    assert "stock, txqueuelen 50: 80 (0.80x), 0 lost" in text
    assert "stock, txqueuelen 10000: not reached" in text


def test_published_figures_are_of_rows_we_have() -> None:
    assert {one["row"] for one in tables.PUBLISHED["figures"]} <= {*all_workloads()}


def test_published_figures_stand_beside_ours_where_measured() -> None:
    row = dataclasses.replace(ROW, name="pktgen_2")
    text = tables.format_published(run_with(row, stock=[100], sluice=[104]))
    assert "0.97x  391/s" in text and "1.04x" in text
    assert tables.format_published(run_with(stock=[100], sluice=[104])) == ""


@pytest.mark.parametrize("end", [VmLost("VM lost"), KeyboardInterrupt(), SystemExit(143)])
def test_what_was_measured_until_a_boot_was_cut_short_is_saved(
    tmp_path, monkeypatch, capsys, end
) -> None:
    whole = run_with(stock=[100], sluice=[110])

    def run_job(machine, *_):
        written = {"rows": [dataclasses.asdict(ROW)], "planned": 9}
        lines = [dataclasses.asdict(m) for m in whole.measurements]
        text = json.dumps({**written, "measurements": lines})
        (machine.output / "result.json").write_text(text)
        raise end

    root = Root("7.3", tmp_path, "7.3.4", "linux-image 7.3.4", "key")
    monkeypatch.setattr(measure, "ensure_root", lambda *_: root)
    monkeypatch.setattr(measure.build, "stage", lambda *_: {})
    monkeypatch.setattr(measure.vm, "run_job", run_job)
    monkeypatch.setattr(measure, "read_provenance", lambda *_: PROVENANCE)
    path = tmp_path / "kept.json"
    plan = measure.Plan(kernel_named("7.3"), [ROW], 3, 1.0)
    with pytest.raises(type(end)) as raised:
        measure.measure(plan, path)
    kept = parse_run(path.read_text())
    assert kept.measurements == whole.measurements and not kept.complete
    said = f"{capsys.readouterr().err}{raised.value}"
    assert said.count(f"2 of 9 samples are saved in {path}") == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100, 149], False),
        ([100, 151], True),
        ([100], False),
        ([10, 100, 101, 102, 1000], False),
        ([10, 10, 100, 102, 1000], True),
        ([0, 0], False),
    ],
)
def test_samples_that_disagree(values, expected) -> None:
    assert disagree(values) is expected


def test_row_whose_samples_disagree_is_not_decided() -> None:
    run = run_with(stock=[100, 200, 100], sluice=[60, 61, 62])
    (finding,) = [f for f in tables.findings_of(run, ROW) if "stock" in f.demand]
    assert (finding.reached, finding.verdict) == (False, "not decided")
    text = tables.format_findings([finding], colour=False)
    assert "SHORT" not in text and "1 not decided" in text
    run = run_with(stock=[100, 110, 100], sluice=[60, 61, 62])
    (finding,) = [f for f in tables.findings_of(run, ROW) if "stock" in f.demand]
    assert finding.verdict == "SHORT"


def test_lost_packets_are_short_whatever_the_samples() -> None:
    run = run_with(stock=[100, 200, 100], sluice=[60, 61, 62])
    lossy = dataclasses.replace(run.measurements[-1], sample=sample(62, lost=3))
    run = dataclasses.replace(run, measurements=[*run.measurements[:-1], lossy])
    found = {f.got: f.verdict for f in tables.findings_of(run, ROW)}
    assert found["3 lost"] == "SHORT" and "not decided" in found.values()


@pytest.fixture
def bench(monkeypatch, fake_workload):
    """Measures stock and sluice, which have these values one after the other: the
    report, what was said, and the seconds each sample had."""
    monkeypatch.setattr(rows, "background_ping", contextlib.nullcontext)
    monkeypatch.setattr(rows, "unload", lambda: None)
    monkeypatch.setattr(Row, "variants", ("stock", "sluice"))

    def run(values, **more):
        left, deadlines = iter(values), []

        def run_child(_, seconds):
            deadlines.append(seconds)
            sample = {"value": next(left), "lost_at_ring": 0, "extra": {}}
            return Ending(answer=sample)

        monkeypatch.setattr(rows, "run_child", run_child)
        job = {"rows": ["fake"], "rounds": 1, "seconds": 2, "counted": False}
        written, said = [], []
        assert rows.run_bench(job | more, written.append, said.append)[0] == 0
        return written[-1], said, deadlines

    return run


def test_rounds_go_on_until_the_ratio_is_sure(bench) -> None:
    report, said, _ = bench([10] * 99, rounds=2, minutes=1)
    assert [m["round"] for m in report["measurements"][::2]] == [0, 1, 2, 3, 4]
    assert report["planned"] == 10
    assert "not within" not in "".join(said)


def test_ratio_that_time_left_unsure_is_told(bench) -> None:
    report, said, _ = bench([10] * 4, rounds=2, minutes=1e-9)
    assert len(report["measurements"]) == 4
    assert said[-1] == "fake: not within 3 %: sluice unknown"
    report, said, _ = bench([10, 10, 10, 20] * 3, rounds=6, minutes=1e-9)
    assert len(report["measurements"]) == 12
    assert said[-1] == "fake: not within 3 %: sluice 0.50-1.00"


def test_sample_has_time_to_set_up_and_more_of_it_where_all_is_slow(bench) -> None:
    _, _, (usual, _) = bench([1, 1])
    _, _, (counted, _) = bench([1, 1], counted=True)
    assert (usual, counted) == (2 + rows.GRACE_SECONDS, 3602)
    slow = dataclasses.replace(ROW, setup_seconds=30)
    slow_workload = {"": [Workload(slow, lambda *_: None)]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workloads, "by_command", lambda: slow_workload)
        assert bench([1, 1])[2] == [usual + 30] * 2


@pytest.mark.parametrize(
    ("ending", "status", "reason"),
    [
        (Ending(answer={"value": 1}), "measured", ""),
        (Ending(lost=True, message="died"), "lost", "died"),
        (Ending(error="Skipped", message="no flag"), "skipped", "no flag"),
        (Ending(error="OSError", message="x"), "failed", "x"),
    ],
)
def test_line_says_how_its_sample_ended(ending, status, reason) -> None:
    line = rows.measurement((3, "fake", "stock"), ending)
    assert (line["status"], line["reason"]) == (status, reason)
    assert (line["round"], line["row"], line["variant"]) == (3, "fake", "stock")
    assert line["sample"] == ending.answer


def test_only_rows_that_are_asked_for_are_measured(bench, monkeypatch) -> None:
    other = dataclasses.replace(ROW, name="other")
    both = [Workload(row, lambda *_: None) for row in (other, ROW)]
    monkeypatch.setattr(workloads, "by_command", lambda: {"": both})
    report, _, _ = bench([1, 2])
    assert {line["row"] for line in report["measurements"]} == {"fake"}
    report, _, _ = bench([1, 2, 3, 4], rows=["fake", "other"])
    values = rows.values_of(ROW, report["measurements"])
    assert values == {"stock": {0: 3}, "sluice": {0: 4}}


def test_sample_that_others_disturb_is_taken_again_but_not_for_ever(
    bench, monkeypatch
) -> None:
    drivers: list[str] = []
    percents = iter([50, 3, 20, 30, 40])
    monkeypatch.setattr(rows, "read_load", lambda: (0.0, 0.0))
    monkeypatch.setattr(rows, "others_percent", lambda *_: next(percents))
    monkeypatch.setattr(rows, "system_call_us", lambda: 9.0)
    monkeypatch.setattr(rows, "timer_us", lambda: 41.0)
    monkeypatch.setattr(rows, "read_late", lambda: [])
    monkeypatch.setattr(rows, "late_since", lambda _: {"p50": 8})
    monkeypatch.setattr(env.GuestEnv, "load_kernel_reader", lambda _: None)
    monkeypatch.setattr(env.GuestEnv, "use_drivers", lambda _, v: drivers.append(v))
    report, said, _ = bench([1, 2, 3, 4, 5], native=True)
    stock, sluice = (m["sample"] for m in report["measurements"])
    assert (stock["value"], sluice["value"]) == (2, 5)
    told = {"late_us": {"p50": 8}, "system_call_us": 9.0, "timer_us": 41.0}
    assert stock["extra"] == {"others_percent": 3, **told}
    assert sluice["extra"] == {"others_percent": 40, **told}
    assert drivers == ["stock"] * 2 + ["sluice"] * 3
    assert "fake, stock: others used 50 % of the host" in said


def test_saved_run_is_compact_and_tells_the_same() -> None:
    pings = [float(number) for number in range(1000)]
    sample = {"value": 1 / 3, "pings_ms": pings, "lost_at_ring": 0, "unaccounted": 0}
    sample |= {f"ping_p{n}_ms": 5.0 for n in (50, 95, 99)}
    lines = [
        Measurement(number, "fake", "stock", "measured", "", {**sample, "extra": {}})
        for number in range(2)
    ]
    run = Run(PROVENANCE, [ROW], lines, 2)
    saved = parse_run(results.format_run(run))
    last = saved.measurements[-1].sample
    assert len(last["pings_ms"]) == results.PINGS_KEPT
    assert (last["pings_ms"][0], last["pings_ms"][-1]) == (0.0, 999.0)
    assert last["value"] == 0.333333
    assert len(results.summarise(saved, "fake", "stock").values) == 2
