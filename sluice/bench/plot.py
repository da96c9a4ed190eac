# SPDX-License-Identifier: GPL-2.0-or-later
"""Bars, for a terminal and as SVG: each chart compares one figure."""

from __future__ import annotations

import html
from dataclasses import dataclass


from sluice import output
from sluice.output import Text

BAR_WIDTH = 22
FULL, PARTS = "█", " ▏▎▍▌▋▊▉"
PLAIN = "#"  # for a terminal without Unicode
COLORS = {"stock": "#9a9a9a", "sluice": "#1f77b4"}
ROW, LEFT, RIGHT, WIDTH = 22, 70, 250, 640  # of the picture, pixels


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    text: str  # the value with its unit, and a remark


@dataclass(frozen=True)
class Chart:
    title: str
    bars: tuple[Bar, ...]

    def share(self, bar: Bar) -> float:
        """The bar's length as a share of the longest."""
        most = max(one.value for one in self.bars)
        return bar.value / most if most > 0 else 0.0


def format_bar(share: float, width: int = BAR_WIDTH, unicode: bool = True) -> str:
    """The bar; at least one character for any value above 0."""
    eighths = max(round(share * width * 8), 1 if share > 0 else 0)
    if not unicode:
        return (PLAIN * -(-eighths // 8)).ljust(width)
    whole, part = divmod(eighths, 8)
    return (FULL * whole + (PARTS[part] if part else "")).ljust(width)


def format_chart(chart: Chart, unicode: bool = True) -> list[str | Text]:
    lines: list[str | Text] = [output.bold(chart.title)]
    for bar in chart.bars:
        drawn = format_bar(chart.share(bar), unicode=unicode)
        lines.append(f"  {bar.label:<7}{drawn}  {bar.text}")
    return lines


def _svg_text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{html.escape(text)}</text>'


def _svg_chart(chart: Chart, top: int) -> list[str]:
    lines = [_svg_text(0, top + 15, chart.title, ' font-weight="bold"')]
    for place, bar in enumerate(chart.bars, 1):
        y = top + place * ROW
        length = chart.share(bar) * (WIDTH - LEFT - RIGHT)
        color = COLORS.get(bar.label, "#555")
        lines += [
            _svg_text(0, y + 15, bar.label),
            f'<rect x="{LEFT}" y="{y + 3}" width="{length:.1f}" height="{ROW - 6}"'
            f' fill="{color}"/>',
            _svg_text(LEFT + length + 6, y + 15, bar.text),
        ]
    return lines


def format_svg(title: str, charts: list[Chart], notes: list[str]) -> str:
    """A self-contained picture on a white ground."""
    tops, top = [], 34
    for chart in charts:
        tops.append(top)
        top += (len(chart.bars) + 1) * ROW + 8
    height = top + len(notes) * 18 + 6
    body = [_svg_text(0, 18, title, ' font-size="16"')]
    for chart, at in zip(charts, tops):  # noqa: B905
        body += _svg_chart(chart, at)
    for place, note in enumerate(notes, 1):
        body.append(_svg_text(0, top + place * 18, note, ' fill="#555"'))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 {WIDTH + 20} {height}"'
        f' width="{WIDTH + 20}" height="{height}" font-family="sans-serif"'
        ' font-size="13">',
        f"<title>{html.escape(title)}</title>",
        '<rect x="-10" width="100%" height="100%" fill="#fff"/>',
        *body,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"
