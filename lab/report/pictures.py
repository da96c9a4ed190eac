# SPDX-License-Identifier: GPL-2.0-or-later
"""The documentation's pictures: python3 -m lab.report.pictures RESULT.json FOLDER

They are drawn by matplotlib, which is in the lab's virtual environment; everything else
of the lab does without.
"""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from lab.report.results import Run, read_run, summaries
from lab.report.tables import format_number
from lab.row import Row
from lab.variants import VARIANTS

# Text stays text, and the same run makes the same file.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sluice"})
COLOURS = {"stock": "#7f7f7f", "upstream": "#d9822b", "sluice": "#1f6fb4"}
WIDTH_INCHES = 8.6
PANEL_INCHES = 2.3  # the height
# The rows in the pictures of the documentation, with titles as README.md has them.
LOST_ROWS = {
    "pktgen_2": "2 pktgen senders",
    "vhost_1": "1 pktgen sender, vhost-net",
    "tcp_8_fast": "8 TCP streams, fast process",
    "tcp_8_slow": "8 TCP streams, process with 20 us of work",
    "udp_flood": "UDP flood, the same process",
}
LATENCY_ROWS = {
    "udp_flood": "UDP flood, process with 20 us of work",
    "kernel_tcp_8_slow": "8 TCP streams, reader with 20 us of work",
    "kernel_tcp_8_link": "8 TCP streams, link of 5000 packets/s",
}
LEAST_MS = 0.1  # of a ping that rounds to none: a logarithmic axis has no 0


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = text.getvalue()[text.getvalue().index("<svg") :]
    # A tenth of a pixel is enough in a tag: a picture's file is mostly digits.
    return re.sub(r"(\d\.\d)\d+(?=[^<>]*>)", r"\1", svg)


def _legend(axes: Any, **place: Any) -> None:
    marks = [Line2D([], [], marker="o", ls="", color=COLOURS[v]) for v in VARIANTS]
    axes.legend(marks, VARIANTS, frameon=False, ncols=3, **place)


def plot_losses(run: Run, rows: list[Row]) -> str:
    """A line for each row: packets lost at the ring, all rounds, logarithmic above 1."""
    figure = Figure((WIDTH_INCHES, 0.8 + 0.42 * len(rows)))
    axes = figure.subplots()
    axes.set_yticks(range(len(rows)), [row.title for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)  # the first row on top, no empty one
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#eee")
    axes.set_axisbelow(True)
    axes.set_xlabel("packets lost at the ring, all rounds")
    axes.set_xscale("symlog", linthresh=1)
    for y, row in enumerate(rows):
        for shift, name in zip((-0.24, 0, 0.24), VARIANTS):
            lost, place = summaries(run, row)[name].lost_at_ring, y + shift
            axes.barh(place, lost, height=0.22, color=COLOURS[name])
            text = f" {format_number(lost)}"
            axes.annotate(text, (lost, place), va="center", fontsize=7)
    axes.set_xlim(left=0)
    _legend(axes, loc="lower left", bbox_to_anchor=(0, 1))
    return _svg(figure)


def _plot_distribution(axes: Any, run: Run, row: Row) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_title(row.title, fontsize=8)
    axes.tick_params(which="both", labelsize=7)
    axes.grid(color="#eee")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    for name in VARIANTS:
        samples = (m.sample["pings_ms"] for m in run.of(row.name, name) if m.sample)
        times = sorted(max(time, LEAST_MS) for pings in samples for time in pings)
        sent = len(times) / (summaries(run, row)[name].ping_answered or 1.0)
        shares = [number / sent for number in range(1, len(times) + 1)]
        axes.step(times, shares, where="post", color=COLOURS[name], lw=1.5)
    axes.set_ylim(bottom=0)


def plot_latency(run: Run, rows: list[Row]) -> str:
    """The distribution of ping, a panel for each row; a curve ends at the share that
    was answered."""
    figure = Figure((WIDTH_INCHES, PANEL_INCHES))
    panels = figure.subplots(1, len(rows))
    for axes, row in zip(panels, rows):
        _plot_distribution(axes, run, row)
    figure.supxlabel("ping under load, ms", fontsize=9)
    figure.supylabel("share of the pings sent", fontsize=9)
    FigureCanvasSVG(figure)  # whose text the layout measures
    figure.tight_layout()
    _legend(panels[0], loc="lower left", bbox_to_anchor=(0, 1.15))
    return _svg(figure)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run, folder = read_run(Path(sys.argv[1])), Path(sys.argv[2])
    known = {row.name: row for row in run.rows}
    for name, plot, titles in (
        ("lost", plot_losses, LOST_ROWS),
        ("latency", plot_latency, LATENCY_ROWS),
    ):
        rows = [replace(known[row], title=title) for row, title in titles.items()]
        (folder / f"{name}.svg").write_text(plot(run, rows))


if __name__ == "__main__":
    main()
