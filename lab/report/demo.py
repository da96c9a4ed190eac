# SPDX-License-Identifier: GPL-2.0-or-later
"""The end of make demo: the report of its rows, a sentence and a plot."""

from __future__ import annotations

import textwrap

from lab.report.results import Run, Summary, summaries
from lab.report.tables import WIDTH, format_ms, format_number, format_report
from lab.workloads import demo

BAR = 60  # characters


def format_sentence(run: Run, found: dict[str, Summary]) -> str:
    """Of the pings and rates of a row, found, and of all losses."""
    both = ("sluice", "stock")
    pings = [format_ms(found[name].ping_ms[50]) for name in both]
    rates = " and ".join(format_number(found[name].median) for name in both)
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
    parts = [format_report(run, colour)]
    found = next((summaries(run, r) for r in run.rows if r.name == demo.TCP), {})
    if {"stock", "sluice"} <= found.keys():
        parts += [textwrap.fill(format_sentence(run, found), WIDTH), format_plot(found)]
    return "\n\n".join(parts)
