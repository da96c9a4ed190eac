# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a run: python3 -m lab.report.page RESULT.json PAGE.html [FOLDER]

One self-contained file with plots and the report's text, and the documentation's
pictures in the FOLDER. It runs in the lab's virtual environment, because matplotlib
draws the plots; everything else of the lab does without.
"""

from __future__ import annotations

import html
import io
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Ctrl-C ends this silently: whoever runs it says so.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
matplotlib.rcParams["svg.hashsalt"] = "sluice"  # the same run, the same file
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import LogLocator  # noqa: E402

from lab.report.results import Run, read_run, summaries  # noqa: E402
from lab.report.tables import format_number, format_report  # noqa: E402
from lab.row import Row  # noqa: E402
from lab.sure import SURE_PERCENT  # noqa: E402
from lab.variants import VARIANTS  # noqa: E402

COLOURS = {"stock": "#7f7f7f", "upstream": "#d9822b", "sluice": "#1f6fb4"}
WIDTH_INCHES = 8.6
PANELS, PANEL_INCHES = 3, 2.3  # in a line, and the height of each
# The rows in the pictures of the documentation, with titles as README.md has them.
LOST_ROWS = {
    "pktgen_2": "2 pktgen senders",
    "vhost_1": "1 pktgen sender, vhost-net",
    "tcp_8_fast": "8 TCP streams, fast process",
    "tcp_8_slow": "8 TCP streams, process with 20 us of work",
    "udp_flood": "UDP flood, the same process",
    "udp_link": "UDP flood, link of 5000 packets/s",
}
LATENCY_ROWS = {
    "udp_flood": "UDP flood, process with 20 us of work",
    "kernel_tcp_8_slow": "8 TCP streams, reader with 20 us of work",
    "kernel_tcp_8_link": "8 TCP streams, link of 5000 packets/s",
}
LEAST_MS = 0.1  # of a ping that rounds to none: a logarithmic axis has no 0

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; }
svg { width: 100%; height: auto; } pre { font-size: 0.8rem; white-space: pre-wrap; }
"""


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    svg = text.getvalue()[text.getvalue().index("<svg") :]
    # A tenth of a pixel is enough in a tag: a picture's file is mostly digits.
    return re.sub(r"(\d\.\d)\d+(?=[^<>]*>)", r"\1", svg)


def _legend(axes: Any, **place: Any) -> None:
    marks = [plt.Line2D([], [], marker="o", ls="", color=COLOURS[v]) for v in VARIANTS]
    axes.legend(marks, VARIANTS, frameon=False, ncols=3, **place)


def plot_losses(run: Run) -> str:
    """A line for each row: packets lost at the ring, all rounds, logarithmic above 1."""
    rows = [row for row in run.rows if row.lossless and summaries(run, row)]
    figure, axes = plt.subplots(figsize=(WIDTH_INCHES, 0.8 + 0.42 * len(rows)))
    axes.set_yticks(range(len(rows)), [row.title for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)  # the first row on top, no empty one
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#eee")
    axes.set_axisbelow(True)
    axes.set_xlabel("packets lost at the ring, all rounds")
    axes.set_xscale("symlog", linthresh=1)
    for y, row in enumerate(rows):
        found = summaries(run, row)
        measured = [name for name in VARIANTS if name in found]
        for shift, name in zip((-0.24, 0, 0.24), measured):
            lost, place = found[name].lost_at_ring, y + shift
            axes.barh(place, lost, height=0.22, color=COLOURS[name])
            text = f" {format_number(lost)}"
            axes.annotate(text, (lost, place), va="center", fontsize=7)
    axes.set_xlim(left=0)
    _legend(axes, loc="lower left", bbox_to_anchor=(0, 1))
    return _svg(figure)


def _pings(run: Run, row: Row, variant: str) -> list[float]:
    return sorted(
        time
        for m in run.of(row.name, variant)
        if m.sample
        for time in m.sample.get("pings_ms", [])
    )


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
        times = [max(time, LEAST_MS) for time in _pings(run, row, name)]
        one = summaries(run, row).get(name)
        answered = 1.0 if one is None else one.ping_answered or 1.0
        sent = len(times) / answered
        shares = [number / sent for number in range(1, len(times) + 1)]
        axes.step(times, shares, where="post", color=COLOURS[name], lw=1.5)
    axes.set_ylim(bottom=0)


def plot_latency(run: Run) -> str:
    """The distribution of ping, a panel for each row; a curve ends at the share that
    was answered. Empty if no row has pings."""
    rows = [row for row in run.rows if _pings(run, row, "sluice")]
    if not rows:
        return ""
    lines = -(-len(rows) // PANELS)
    size = (WIDTH_INCHES, PANEL_INCHES * lines)
    figure, grid = plt.subplots(lines, PANELS, figsize=size, squeeze=False)
    for axes in grid.flat[len(rows) :]:
        axes.set_visible(False)
    for axes, row in zip(grid.flat, rows):
        _plot_distribution(axes, run, row)
    figure.supxlabel("ping under load, ms", fontsize=9)
    figure.supylabel("share of the pings sent", fontsize=9)
    figure.tight_layout()
    _legend(grid[0, 0], loc="lower left", bbox_to_anchor=(0, 1.15))
    return _svg(figure)


def format_page(run: Run) -> str:
    facts = run.provenance
    plots = (
        ("Lost at the ring", plot_losses(run)),
        ("Latency under load", plot_latency(run)),
    )
    body = "".join(f"<h2>{title}</h2>\n{plot}\n" for title, plot in plots if plot)
    commands = "\n".join(map(" ".join, (facts.command_line, facts.qemu_command)))
    title = f"stock, upstream and sluice on Linux {html.escape(facts.kernel)}"
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}</style>\n<h1>{title}</h1>\n"
        "<p>Every row was measured in one boot of one kernel, the variants in turn. "
        "A ratio is the median of the rounds' ratios; "
        f"from 5 rounds on its {SURE_PERCENT} % interval follows.</p>\n{body}"
        f"<h2>Figures</h2>\n<pre>{html.escape(format_report(run))}\n\n"
        f"{html.escape(commands)}</pre></html>\n"
    )


def write_pictures(run: Run, folder: Path) -> None:
    rows = {row.name: row for row in run.rows}
    for name, plot, titles in (
        ("lost", plot_losses, LOST_ROWS),
        ("latency", plot_latency, LATENCY_ROWS),
    ):
        few = [replace(rows[one], title=titles[one]) for one in titles if one in rows]
        (folder / f"{name}.svg").write_text(plot(replace(run, rows=few)))


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    run = read_run(Path(sys.argv[1]))
    Path(sys.argv[2]).write_text(format_page(run))
    if len(sys.argv) == 4:
        write_pictures(run, Path(sys.argv[3]))


if __name__ == "__main__":
    main()
