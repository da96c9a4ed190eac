# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of docs/ that show a result: every cell is written from its file.

Such a table follows a comment, `<!-- lab/results/NAME.json -->`. The first cell of a
line names a row, and each heading what its column shows of that row:

    stock                                    the median rate of a variant, with its unit
    sluice : stock                           the ratio of two, and its interval
    lost: stock, sluice                      packets lost at the ring in all rounds
    ping p50 / p99, ms: stock, ping: sluice  medians of the rounds' percentiles

`stock with 8000` is stock with a txqueuelen of 8000.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from lab.report.results import Run, summaries
from lab.report.tables import format_number, format_ratio
from lab.row import Row

_MARK = re.compile(r"<!-- (lab/results/\S+\.json) -->")


def format_cell(run: Run, row: Row, heading: str) -> str:
    """What the heading asks of the row; - if it was not measured."""
    kind, _, names = heading.rpartition(": ")
    every = summaries(run, row)
    words = re.split(" : |, ", heading if kind.endswith(" ") else names)
    found = [every.get(name.replace(" with ", "-")) for name in words]
    one = found[0]
    if kind.endswith(" "):  # a ratio's colon has a blank on either side
        return format_ratio(one, found[1])
    if kind == "lost":
        return ", ".join(format_number(s.lost_at_ring if s else None) for s in found)
    if one is None or (kind and one.ping_ms[50] is None):
        return "-"
    if kind:
        return " / ".join(f"{one.ping_ms[percent]:.1f}" for percent in (50, 99))
    return f"{format_number(one.median)} {row.unit}"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def refresh(text: str, read: Callable[[str], Run]) -> str:
    """The text with the cells of its tables as their results have them.

    read: a run, by the path in the comment. ValueError: a row that the run lacks.
    """
    lines = text.split("\n")
    for place, line in enumerate(lines):
        found = _MARK.fullmatch(line)
        if not found:
            continue
        run = read(found[1])
        rows = {row.name: row for row in run.rows}
        _, *headings = _cells(lines[place + 1])
        for number in range(place + 3, len(lines)):
            if not lines[number].startswith("|"):
                break
            name = _cells(lines[number])[0]
            if name not in rows:
                raise ValueError(f"{found[1]}: no row {name}")
            cells = [format_cell(run, rows[name], heading) for heading in headings]
            lines[number] = f"| {' | '.join([name, *cells])} |"
    return "\n".join(lines)
