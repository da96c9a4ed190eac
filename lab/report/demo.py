# SPDX-License-Identifier: GPL-2.0-or-later
"""The end of make demo: a table of what the rows are about, the figures that sluice did
not reach, a sentence and a plot."""

from __future__ import annotations

import textwrap

from lab.report import tables
from lab.report.results import Run, Summary, summaries
from lab.report.tables import LOST, WIDTH, Fact, format_ms
from lab.variants import VARIANTS
from lab.workloads.demo import PEER_PACKETS, TCP

BAR = 60  # characters


def _mbit(one: Summary) -> str:
    return f"{one.median:.1f}"


def _pings(one: Summary) -> str:
    return f"{format_ms(one.ping_ms[50])} / {format_ms(one.ping_ms[99])}"


def _pings_lost(one: Summary) -> str:
    return tables.format_pings_lost(one, digits=1)


# By row: what it is about.
FACTS: dict[str, tuple[Fact, ...]] = {
    TCP: (("Mbit/s", _mbit), LOST, ("ping p50 / p99, ms", _pings)),
    "demo_udp": (("Mbit/s received", _mbit), LOST, ("pings lost, %", _pings_lost)),
    "demo_voice": (
        ("voice p50 / p99, ms", _pings),
        ("voice lost, %", _pings_lost),
        ("Mbit/s of the transfer", _mbit),
    ),
    "demo_direct": (LOST,),
    "demo_dead_reader": (
        (f"the peer got, of {PEER_PACKETS}", lambda one: f"{one.median:,.0f}"),
        ("its longest silence, ms", lambda one: format_ms(one.silence_ms)),
    ),
}


def format_table(run: Run) -> str:
    lines = [tables.format_line("", VARIANTS)]
    for row in run.rows:
        lines += [row.title, *tables.format_facts(run, row, FACTS[row.name]), ""]
    facts = run.provenance
    machine = f"{facts.kernel_package}; {facts.accelerator}, {facts.vcpus} vCPUs"
    load = f"others used {facts.other_load_percent:.0f} % of the host"
    return "\n".join([*lines, *textwrap.wrap(f"{machine}; {load}", WIDTH)])


def format_sentence(run: Run, found: dict[str, Summary]) -> str:
    """Of the pings and rates of a row, found, and of all losses."""
    both = ("sluice", "stock")
    pings = [format_ms(found[name].ping_ms[50]) for name in both]
    rates = " and ".join(_mbit(found[name]) for name in both)
    every = [summaries(run, row) for row in run.rows if row.lossless]
    lost = [sum(one[v].lost_at_ring for one in every if v in one) for v in both]
    return (
        f"With sluice half of the pings beside 8 TCP streams take {pings[0]} ms, without "
        f"it {pings[1]} ms, and the streams carry {rates} Mbit/s; {lost[0]:,} and "
        f"{lost[1]:,} packets were lost at rings that are read."
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
    trouble = [f"kernel: {line}" for line in run.trouble]
    parts = [format_table(run), *trouble, "\n".join([*short, reached])]
    found = next((summaries(run, r) for r in run.rows if r.name == TCP), {})
    if {"stock", "sluice"} <= found.keys():
        parts += [textwrap.fill(format_sentence(run, found), WIDTH), format_plot(found)]
    return "\n\n".join(parts)
