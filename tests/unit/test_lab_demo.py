# SPDX-License-Identifier: GPL-2.0-or-later
"""What make demo tells of its rows, and what its own workloads count."""

from __future__ import annotations

import dataclasses
import socket

import pytest

from lab.checks import measure
from lab.failure import FINE, NO
from lab.report import demo as report
from lab.report.results import Measurement, Run
from lab.row import VARIANTS
from lab.workloads import demo, rows_of
from tests.unit.test_lab_bench import PROVENANCE, sample

ROWS = {row.name: row for row in rows_of("demo")}
PINGS = {"stock": (500.0, 600.0), "upstream": (450.0, 550.0), "sluice": (3.0, 20.0)}
LOST = {"stock": 1234, "upstream": 0, "sluice": 0}
PEER = {"stock": 3000.0, "upstream": 1277.0, "sluice": 3000.0}


def measured(row: str, variant: str, value: float) -> Measurement:
    median, worst = PINGS[variant]
    taken = sample(value, LOST[variant] if ROWS[row].lossless else 0)
    taken |= {"ping_p50_ms": median, "ping_p99_ms": worst, "pings_ms": [median, worst]}
    taken["extra"] = {"pings_sent": 100, "pings_received": 98, "silence_ms": 251.0}
    return Measurement(0, row, variant, "measured", "", taken)


def run_of_all(**rates: float) -> Run:
    """A run that shows what it should; rates: of variants, in Mbit/s."""
    lines = [
        measured(row, v, PEER[v] if row == demo.DEAD else rates.get(v, 11.0))
        for row in ROWS
        for v in VARIANTS
    ]
    return Run(PROVENANCE, list(ROWS.values()), lines, len(lines))


def test_demo_is_told_as_a_table_a_sentence_and_a_plot() -> None:
    text = report.format_demo(run_of_all(), colour=False)
    assert all(len(line) <= 80 for line in text.splitlines()), text
    told = " ".join(text.split())
    assert "ping p50 / p99, ms 500 / 600 450 / 550 3.0 / 20" in told
    assert "of 3000 packets the peer got 3,000 1,277 3,000" in told
    assert "takes 3.0 ms instead of 500 ms" in told
    assert "at the same rate (11.0 and 11.0 Mbit/s)" in told
    assert "lose 0 packets instead of 4,936" in told
    assert text.splitlines()[-1].startswith("sluice") and "\033" not in text


def test_rate_that_is_not_the_same_is_told_and_short() -> None:
    run = run_of_all(sluice=9.9)
    text = report.format_demo(run, colour=False)
    assert "at 0.90 of the rate (9.9 and 11.0 Mbit/s)" in " ".join(text.split())
    assert f"SHORT       {demo.TCP}: at least 0.95x stock" in text
    assert measure.demo_status(run) == NO


def test_no_rate_is_demanded_of_a_host_that_is_too_slow() -> None:
    run = run_of_all(stock=6.0, upstream=6.0, sluice=5.0)
    text = report.format_demo(run, colour=False)
    assert f"not decided {demo.TCP}: a reader of 10.0: this host is too slow" in text
    assert "this host is too slow to compare rates" in " ".join(text.split())
    assert measure.demo_status(run) == FINE and measure.bench_status(run) == NO


def test_fewer_rows_and_variants_are_told_as_well() -> None:
    lines = [measured(demo.DEAD, v, PEER[v]) for v in ("stock", "sluice")]
    lines.append(Measurement(0, demo.DEAD, "upstream", "skipped", "no flag", None))
    run = Run(PROVENANCE, [ROWS[demo.DEAD]], lines, 3)
    text = report.format_demo(run, colour=False)
    assert "upstream: skipped: no flag" in text and "ping" not in text
    assert measure.demo_status(run) == FINE


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_a_loss_of_sluice_fails_the_demo(variant: str) -> None:
    run = run_of_all()
    lines = [
        dataclasses.replace(m, sample={**m.sample, "lost_at_ring": 1})
        if m.variant == variant and m.row == demo.DIRECT
        else m
        for m in run.measurements
    ]
    run = dataclasses.replace(run, measurements=lines)
    assert measure.demo_status(run) == (NO if variant == "sluice" else FINE)


def test_silence_is_the_longest_gap_until_the_end() -> None:
    ms = 10**6
    assert demo.longest_silence_ms([0, 5 * ms, 6 * ms], 8 * ms) == 5
    assert demo.longest_silence_ms([0, 5 * ms, 6 * ms], 96 * ms) == 90


def test_packets_carry_their_time_and_the_kernel_adds_its_own() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        demo.stamp_arrivals(peer)
        for _ in range(3):
            peer.sendto(demo.stamped(demo.VOICE_BYTES), peer.getsockname())
        times = demo.read_times(peer)
    assert len(times) == 3 and all(0 <= came - sent < 10**10 for sent, came in times)
    heard = demo.Voice(sent=4).heard(times)
    assert (heard.sent, heard.received, len(heard.times_ms)) == (4, 3, 3)
