# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of docs/ that show a result."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.report.markdown import refresh
from lab.report.results import Run, read_run, summaries
from lab.sure import is_within, ratio_interval

TREE = Path(__file__).resolve().parents[2]
NAME = "lab/results/native-7.3.json"
TABLE = f"""\
Before.

<!-- {NAME} -->
| row | stock | sluice : stock | lost: stock, sluice | ping p50 / p99, ms: sluice |
|---|---|---|---|---|
| udp_link | x | x |

| row | stock |
|---|---|
| udp_link | not ours |
"""


def read(name: str) -> Run:
    return read_run(TREE / name)


def lines(text: str) -> list[str]:
    return refresh(text, read).splitlines()


def test_cells_come_from_the_result() -> None:
    """Numbers as the file has them, calculated here in another way."""
    facts = json.loads((TREE / NAME).read_text())
    samples = {
        variant: [
            one["sample"]
            for one in facts["measurements"]
            if (one["row"], one["variant"]) == ("udp_link", variant)
        ]
        for variant in ("stock", "sluice")
    }
    assert len(samples["stock"]) == len(samples["sluice"]) == 5
    middle = sorted(one["value"] for one in samples["stock"])[2]
    lost = sum(one["lost_at_ring"] for one in samples["stock"])
    ping = [sorted(s[f"ping_p{p}_ms"] for s in samples["sluice"])[2] for p in (50, 99)]
    _, name, rate, ratio, losses, pings, _ = lines(TABLE)[5].split("|", 6)
    assert name == " udp_link "
    assert rate == f" {middle:.1f} Mbit/s "
    assert losses == f" {lost / 1e3:.0f}k, 0 "
    assert pings == f" {ping[0]:.1f} / {ping[1]:.1f} "
    found = float(ratio.split()[0])
    assert found == pytest.approx(1.0, abs=0.05) and "-" in ratio


def test_only_marked_tables_change() -> None:
    before, after = TABLE.splitlines(), lines(TABLE)
    assert before[:5] == after[:5] and before[6:] == after[6:]


def test_what_was_not_measured_is_a_dash() -> None:
    table = TABLE.replace("sluice : stock |", "sluice@250 : stock |")
    assert lines(table)[5].split("|")[3] == " - "


def test_other_rings_are_variants() -> None:
    table = f"""<!-- {NAME} -->
| row | stock with 8000 : stock | lost: stock with 8000, series |
|---|---|---|
| kernel_tcp_1_fast | | |
| udp_link | | |"""
    measured, other = lines(table)[3:]
    assert measured.split("|")[3] == " 0, 0 " and "(" in measured
    assert other.split("|")[2:4] == [" - ", " -, 0 "]


def test_a_row_that_the_result_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match="native-7.3.json: no row udp_lonk"):
        lines(TABLE.replace("| udp_link | x", "| udp_lonk | x"))


def test_the_tables_in_docs_are_those_of_their_results() -> None:
    tables = 0
    for page in sorted((TREE / "docs").glob("*.md")):
        text = page.read_text()
        assert refresh(text, read) == text, f"{page.name}: run python3 -m lab tables"
        tables += text.count("<!-- lab/results/")
    assert tables >= 3


def test_docs_name_the_rows_whose_interval_is_wide() -> None:
    run = read(NAME)
    wide = set()
    for row in run.rows:
        found = summaries(run, row)
        values = found["sluice"].values, found["stock"].values
        if not is_within(ratio_interval(*values)):
            wide.add(row.name)
    told = re.search(
        r"<!-- wide -->(.*?)<!-- /wide -->", (TREE / "docs/bench.md").read_text(), re.S
    )
    assert told
    assert set(re.findall(r"\w+", told[1])) == wide
