# SPDX-License-Identifier: GPL-2.0-or-later
"""The end of make demo: python3 -m lab.report.demo RESULT.json

A table of what the rows are about, the figures that sluice did not reach, a sentence and
a plot. It runs in the lab's virtual environment, because plotext draws the plot.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import plotext

from lab.report import tables
from lab.report.results import Run, Summary, read_run, summaries, why_missing
from lab.report.tables import WIDTH
from lab.row import Row
from lab.variants import VARIANTS
from lab.workloads import demo

_LABEL, _COLUMN = 44, 12
COLOURS = {"stock": "gray", "upstream": "orange", "sluice": "blue"}
Cell = Callable[[Summary], str]


def _mbit(one: Summary) -> str:
    return f"{one.median:.1f}"


def _lost(one: Summary) -> str:
    return f"{one.lost_at_ring:,}"


def _milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 9.5 else f"{value:.1f}"


def _pings(one: Summary) -> str:
    return " / ".join(_milliseconds(one.ping_ms[percent]) for percent in (50, 99))


def _missing(one: Summary) -> str:
    """Of the voice flow's packets: a share of those sent."""
    return "-" if one.ping_answered is None else f"{100 * (1 - one.ping_answered):.1f}"


# By row: what it is about.
FACTS: dict[str, tuple[tuple[str, Cell], ...]] = {
    demo.TCP: (
        ("Mbit/s", _mbit),
        ("packets lost at the ring", _lost),
        ("ping p50 / p99, ms", _pings),
    ),
    demo.UDP: (
        ("Mbit/s received", _mbit),
        ("packets lost at the ring", _lost),
        ("pings answered, %", tables.format_answered),
    ),
    demo.VOICE: (
        ("voice p50 / p99, ms", _pings),
        ("voice lost, %", _missing),
        ("Mbit/s of the transfer", _mbit),
    ),
    demo.DIRECT: (("packets lost at the ring", _lost),),
    demo.DEAD: (
        (
            f"of {demo.PEER_PACKETS} packets the peer got",
            lambda one: f"{one.median:,.0f}",
        ),
        (
            "the peer's longest silence, ms",
            lambda one: _milliseconds(one.counted["silence_ms"]),
        ),
    ),
}


def _line(label: str, cells: list[str]) -> str:
    return f"{label:<{_LABEL}}" + "".join(f"{cell:>{_COLUMN}}" for cell in cells)


def format_row(run: Run, row: Row) -> list[str]:
    found = summaries(run, row)
    lines = [row.title]
    for label, cell in FACTS[row.name]:
        cells = [cell(found[name]) if name in found else "-" for name in VARIANTS]
        lines.append(_line(f"  {label}", cells))
    lines += [
        f"  {name}: {why_missing(run, row.name, name)}"[:WIDTH]
        for name in VARIANTS
        if name not in found
    ]
    return lines


def format_table(run: Run) -> str:
    lines = [_line("", list(VARIANTS))]
    for row in run.rows:
        lines += [*format_row(run, row), ""]
    facts = run.provenance
    machine = f"{facts.kernel_package}; {facts.accelerator}, {facts.vcpus} vCPUs"
    load = f"others used {facts.other_load_percent:.0f} % of the host"
    return "\n".join([*lines, *textwrap.wrap(f"{machine}; {load}", WIDTH)])


def format_sentence(run: Run) -> str:
    """Of the TCP row's pings and rates, and of all losses; empty if it has none."""
    found = _of_tcp(run)
    stock, sluice = found.get("stock"), found.get("sluice")
    share = tables.ratio(sluice, stock)
    if not stock or not sluice or share is None:
        return ""
    pings = [_milliseconds(one.ping_ms[50]) for one in (sluice, stock)]
    every = [summaries(run, row) for row in run.rows if row.lossless]
    lost = [
        f"{sum(one[name].lost_at_ring for one in every if name in one):,}"
        for name in ("sluice", "stock")
    ]
    rates = " and ".join(_mbit(one) for one in (sluice, stock))
    same = "at the same rate" if share >= demo.SAME else f"at {share:.2f} of the rate"
    if stock.median < demo.LEAST_MBIT:
        same = "and this host is too slow to compare rates"
    return (
        f"With sluice a ping beside 8 TCP streams takes {pings[0]} ms instead of "
        f"{pings[1]} ms, {same} ({rates} Mbit/s), and the rings of all rows lose "
        f"{lost[0]} packets instead of {lost[1]}."
    )


def _of_tcp(run: Run) -> dict[str, Summary]:
    rows = [row for row in run.rows if row.name == demo.TCP]
    return summaries(run, rows[0]) if rows else {}


def format_plot(run: Run, colour: bool) -> str:
    """The median ping of each variant beside 8 TCP streams; empty if none was taken."""
    pings = {name: one.ping_ms[50] for name, one in _of_tcp(run).items()}
    known = {name: ping for name, ping in pings.items() if ping is not None}
    if not known:
        return ""
    plotext.simple_bar(
        list(known),
        [round(ping, 1) for ping in known.values()],
        width=WIDTH - len(" 0.00"),
        title="ping p50 beside 8 TCP streams, ms",
        color=[COLOURS[name] for name in known],
    )
    drawn: str = plotext.build().rstrip()
    return drawn if colour else str(plotext.uncolorize(drawn))


def format_demo(run: Run, colour: bool) -> str:
    findings = tables.all_findings(run)
    short = [tables.format_finding(one, colour) for one in findings if not one.reached]
    reached = f"{len(findings) - len(short)} of {len(findings)} figures reached"
    parts = [
        format_table(run),
        *(f"kernel: {line}" for line in run.trouble),
        "\n".join([*short, reached]),
        "\n".join(textwrap.wrap(format_sentence(run), WIDTH)),
        format_plot(run, colour),
    ]
    return "\n\n".join(filter(None, parts))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(format_demo(read_run(Path(sys.argv[1])), tables.read_colour()))


if __name__ == "__main__":
    main()
