# SPDX-License-Identifier: GPL-2.0-or-later
"""The end of make demo: a table of what the rows are about, the figures that sluice did
not reach, a sentence and a plot."""

from __future__ import annotations

import textwrap

from lab.report import tables
from lab.report.results import Run, Summary, summaries
from lab.report.tables import LOST, WIDTH, Fact
from lab.row import Row
from lab.variants import VARIANTS
from lab.workloads import demo

BAR = 60  # characters


def _mbit(one: Summary) -> str:
    return f"{one.median:.1f}"


def _pings(one: Summary) -> str:
    return tables.format_pings(one, (50, 99), " / ")


def _missing(one: Summary) -> str:
    """Of the voice flow's packets: a share of those sent."""
    return "-" if one.ping_answered is None else f"{100 * (1 - one.ping_answered):.1f}"


# By row: what it is about.
FACTS: dict[str, tuple[Fact, ...]] = {
    demo.TCP: (("Mbit/s", _mbit), LOST, ("ping p50 / p99, ms", _pings)),
    demo.UDP: (
        ("Mbit/s received", _mbit),
        LOST,
        ("pings answered, %", tables.format_answered),
    ),
    demo.VOICE: (
        ("voice p50 / p99, ms", _pings),
        ("voice lost, %", _missing),
        ("Mbit/s of the transfer", _mbit),
    ),
    demo.DIRECT: (LOST,),
    demo.DEAD: (
        (f"the peer got, of {demo.PEER_PACKETS}", lambda one: f"{one.median:,.0f}"),
        ("its longest silence, ms", lambda one: tables.format_ms(one.silence_ms)),
    ),
}


def format_row(run: Run, row: Row) -> list[str]:
    found = summaries(run, row)
    lines = [row.title, *(tables.format_fact(fact, found) for fact in FACTS[row.name])]
    lines += [tables.format_other(run, row, v) for v in VARIANTS if v not in found]
    return [*filter(None, lines)]


def format_table(run: Run) -> str:
    lines = [tables.format_line("", VARIANTS)]
    for row in run.rows:
        lines += [*format_row(run, row), ""]
    facts = run.provenance
    machine = f"{facts.kernel_package}; {facts.accelerator}, {facts.vcpus} vCPUs"
    load = f"others used {facts.other_load_percent:.0f} % of the host"
    return "\n".join([*lines, *textwrap.wrap(f"{machine}; {load}", WIDTH)])


def format_sentence(run: Run, found: dict[str, Summary]) -> str:
    """Of the pings and rates of a row, found, and of all losses."""
    both = ("sluice", "stock")
    pings = [tables.format_ms(found[name].ping_ms[50]) for name in both]
    rates = " and ".join(_mbit(found[name]) for name in both)
    every = [summaries(run, row) for row in run.rows if row.lossless]
    lost = [sum(one[v].lost_at_ring for one in every if v in one) for v in both]
    return (
        f"With sluice a ping beside 8 TCP streams takes {pings[0]} ms instead of "
        f"{pings[1]} ms, at {rates} Mbit/s, and the rings of all rows lose "
        f"{lost[0]:,} packets instead of {lost[1]:,}."
    )


def format_plot(found: dict[str, Summary]) -> str:
    """A bar for the median ping of each variant."""
    pings = {name: one.ping_ms[50] or 0.0 for name, one in found.items()}
    scale = BAR / max(1.0, *pings.values())
    bars = [f"{v:9}{'#' * round(scale * ms):{BAR}}  {ms:.1f}" for v, ms in pings.items()]
    return "\n".join(["ping p50 beside 8 TCP streams, ms", *bars])


def format_demo(run: Run, colour: bool) -> str:
    findings = tables.all_findings(run)
    short = [tables.format_finding(one, colour) for one in findings if not one.reached]
    reached = f"{len(findings) - len(short)} of {len(findings)} figures reached"
    parts = [
        format_table(run),
        *(f"kernel: {line}" for line in run.trouble),
        "\n".join([*short, reached]),
    ]
    of_tcp = [summaries(run, row) for row in run.rows if row.name == demo.TCP]
    found = of_tcp[0] if of_tcp else {}
    if {"stock", "sluice"} <= found.keys():
        parts += [textwrap.fill(format_sentence(run, found), WIDTH), format_plot(found)]
    return "\n\n".join(parts)
