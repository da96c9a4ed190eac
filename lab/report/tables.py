# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of a run as text, and which of the required figures it reaches."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab import sure
from lab.guest.host import QUIET_PERCENT
from lab.machines import vm
from lab.machines.native.boot import ACCELERATOR
from lab.report.results import Run, Summary, summaries, why_missing
from lab.row import Row
from lab.variants import PATCHED, SERIES, VARIANTS, parse_variant

WIDTH = 80
# Medians within this share count as equal if the spreads overlap.
EQUAL = 0.97
# What a prompt row's ping may be of another's, by percentile.
PROMPT = {50: 1 / 5, 99: 1 / 3}
_LABEL, _COLUMN = 29, 17
Fact = tuple[str, Callable[[Summary], str]]  # a line's label, and its cells
NOTHING = {"", "-", "0"}


@dataclass(frozen=True)
class Finding:
    """One demanded figure of one row, and whether it is reached."""

    row: str
    demand: str
    got: str
    reached: bool
    of_rates: bool = False  # it compares rates, whose samples may disagree
    decided: bool = True  # if not, they disagree too much to tell

    @property
    def verdict(self) -> str:
        if not self.decided:
            return "not decided"
        return "reached" if self.reached else "SHORT"


def format_number(value: float | None) -> str:
    """At most three digits and a unit letter: 365, 1.28M, 0.94; - if there is none."""
    if value is None:
        return "-"
    units = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
    size, letter = next((u for u in units if abs(value) >= 0.9995 * u[0]), (1, ""))
    few = abs(value) / size
    whole = few >= 99.95 or (size == 1 and value == int(value))
    digits = 0 if whole else 1 if few >= 9.995 else 2
    return f"{value / size:.{digits}f}{letter}"


def ratio(one: Summary | None, other: Summary | None) -> float | None:
    return sure.ratio(one.values, other.values) if one and other else None


def format_ratio(one: Summary | None, other: Summary | None, digits: int = 2) -> str:
    """With its interval, if there are rounds enough; - if one was not measured."""
    share = ratio(one, other)
    if one is None or other is None or share is None:
        return "-"
    interval = sure.ratio_interval(one.values, other.values)
    known = f" ({interval[0]:.2f}-{interval[1]:.2f})" if interval else ""
    return f"{share:.{digits}f}{known}"


def _compare(
    name: str, demand: str, one: Summary, other: Summary, floor: float = 1.0
) -> Finding:
    """Rates: a floor of 1 is reached as well where chance explains the rest."""
    if (ratio(one, other) or 0.0) >= floor:
        return Finding(name, demand, format_ratio(one, other), True, of_rates=True)
    overlap = one.low <= other.high and other.low <= one.high
    equal = floor == 1.0 and overlap and one.median >= EQUAL * other.median
    got = format_ratio(one, other, digits=3) + ", within the spread" * equal
    return Finding(name, demand, got, equal, of_rates=True)


def _against_stock(
    row: Row, name: str, variant: str, found: dict[str, Summary]
) -> Finding:
    """The row's floor; the module's may be that of stock with the lossless ring."""
    floor, stock = 1.0 if variant == SERIES else row.floor or 0.0, found["stock"]
    if row.pace and stock.median < row.pace:
        got = f"this host is too slow: stock has {stock.median:.1f} {row.unit}"
        return Finding(name, f"a reader of {row.pace:.1f}", got, False, True, False)
    demand = f"at least {floor:.2f}x stock"
    finding = _compare(name, demand, found[variant], stock, floor)
    share = ratio(found[variant], found.get(f"stock-{row.lossless_ring}"))
    if finding.reached or variant != "sluice" or share is None:
        return finding
    got = f"{finding.got}; of stock with a ring of {row.lossless_ring} {share:.2f}x"
    return replace(finding, got=got, reached=share >= floor)


def _ping(row: Row, summary: Summary, percent: int) -> float:
    """Of all that were sent, ms, without the path's own; infinite if most were lost."""
    ping = summary.ping_ms[percent]
    lost = summary.ping_answered is not None and summary.ping_answered < 0.5
    return math.inf if lost or ping is None else max(0.0, ping - row.path_ms)


def _pings(
    row: Row, name: str, variant: str, found: dict[str, Summary]
) -> Iterator[Finding]:
    demands = []
    if row.prompt and variant == "sluice":
        others = [other for other in ("stock", "upstream") if other in found]
        demands = [(p, PROMPT[p], other) for other in others for p in PROMPT]
    if row.latency_share is not None and bool(row.targets) == (variant != "sluice"):
        demands.append((50, row.latency_share, "stock"))
    for percent, most, other in demands:
        own, theirs = (_ping(row, found[one], percent) for one in (variant, other))
        values = [
            f"{format_ms(ms)} ms" if ms < math.inf else "no answer"
            for ms in (own, theirs)
        ]
        demand = f"ping p{percent} at most {most:.2f}x {other}"
        reached = own < math.inf and own <= most * theirs
        yield Finding(name, demand, " of ".join(values), reached)


def _of_variant(row: Row, variant: str, found: dict[str, Summary]) -> Iterator[Finding]:
    """What one variant owes: the series is not below the module either. Of its first
    patches, and of what is built to tell their price, only losses are asked."""
    name = row.name if variant == "sluice" else f"{row.name}, {variant}"
    own, upstream = found[variant], found.get("upstream")
    if row.lossless:
        lost = own.lost_at_ring
        yield Finding(name, "0 lost at the ring", f"{lost:,} lost", lost == 0)
    if variant != SERIES and parse_variant(variant).drivers:
        return
    if row.floor is not None:
        yield _against_stock(row, name, variant, found)
    if variant == SERIES:
        yield _compare(name, "at least sluice", own, found["sluice"])
        return
    if variant == "sluice" and upstream and row.above_upstream:
        share = ratio(own, upstream) or 0.0
        yield Finding(name, "above upstream", f"{share:.2f}x", share > 1, True)
    elif variant == "sluice" and upstream and row.reaches_upstream:
        yield _compare(name, "at least upstream", own, upstream)
    yield from _pings(row, name, variant, found)


def _all_of_row(run: Run, row: Row, found: dict[str, Summary]) -> Iterator[Finding]:
    own = [one for one in row.others if one.startswith(("sluice@", *PATCHED))]
    for variant in ("stock", "sluice", *own):
        if variant not in found:
            name = row.name if variant in VARIANTS else f"{row.name}, {variant}"
            got = f"{variant} {why_missing(run, row.name, variant)}"
            yield Finding(name, "a measurement", got, False)
        elif variant != "stock" and {"stock", "sluice"} <= found.keys():
            yield from _of_variant(row, variant, found)
    if strays := sum(s.unaccounted for s in found.values()):
        got = f"{strays:,} are not"
        yield Finding(row.name, "every packet accounted for", got, False)


def findings_of(run: Run, row: Row) -> list[Finding]:
    """What is demanded of a row, measured or not."""
    found = summaries(run, row)
    undecided = sure.is_undecided({name: one.values for name, one in found.items()})
    load = run.provenance.other_load_percent
    findings = []
    for one in _all_of_row(run, row, found):
        if one.of_rates and undecided:
            one = replace(one, decided=False)
        elif one.of_rates and row.pace and load > QUIET_PERCENT and not one.reached:
            # A reader's pace is lower while others have the CPUs.
            got = f"{one.got}, others used {load:.0f} % of the host"
            one = replace(one, got=got, decided=False)
        findings.append(one)
    return findings


def all_findings(run: Run) -> list[Finding]:
    return [finding for row in run.rows for finding in findings_of(run, row)]


def format_line(label: str, cells: Iterable[str]) -> str:
    return f"{label:<{_LABEL}}{''.join(f'{cell:>{_COLUMN}}' for cell in cells)}".rstrip()


def format_ms(ms: float | None) -> str:
    if ms is None:
        return "-"
    return f"{ms:.0f}" if ms >= 9.5 else f"{ms:.1f}"


def _format_pings(summary: Summary) -> str:
    """- if there are none."""
    known = [format_ms(value) for value in summary.ping_ms.values() if value is not None]
    return "/".join(known) or "-"


def format_pings_lost(summary: Summary, digits: int = 0) -> str:
    """Per cent of those sent."""
    known = summary.ping_answered
    return "-" if known is None else f"{100 * (1 - known):.{digits}f}"


def _format_other(run: Run, row: Row, name: str) -> str:
    """A variant of a variant, or one that was not measured, on one line."""
    found = summaries(run, row)
    if one := found.get(name):
        text = f"{format_number(one.median)}, {format_ratio(one, found.get('stock'))} "
        text += f"of stock, {format_number(one.lost_at_ring)} lost, "
        text += f"ping {_format_pings(one)}"
        if (lost := format_pings_lost(one)) not in NOTHING:
            text += f", {lost} % of pings lost"
    else:
        text = why_missing(run, row.name, name)
    return f"  {name}: {text}"[:WIDTH]


def _format_spread(summary: Summary) -> str:
    if len(summary.values) == 1:
        return ""
    return f"{format_number(summary.low)}-{format_number(summary.high)}"


LOST: Fact = ("packets lost at the ring", lambda s: format_number(s.lost_at_ring))


def _facts(row: Row, stock: Summary | None) -> list[Fact]:
    rates: list[Fact] = [
        ("median", lambda s: format_number(s.median)),
        ("from-to", _format_spread),
        ("ratio to stock", lambda s: "" if s is stock else format_ratio(s, stock)),
    ]
    return [
        *(rates if row.unit else []),
        LOST,
        ("ping p50/p95/p99, ms", _format_pings),
        ("pings lost, %", format_pings_lost),
        ("TCP retransmits", lambda s: format_number(s.retransmits)),
        ("longest silence, ms", lambda s: format_number(s.silence_ms)),
    ]


def format_facts(run: Run, row: Row, facts: Sequence[Fact]) -> list[str]:
    """A line for each fact that is known, and why variants are missing."""
    found, lines = summaries(run, row), []
    for fact in facts:
        cells = [fact[1](found[name]) if name in found else "-" for name in VARIANTS]
        if fact is LOST or not NOTHING.issuperset(cells):
            lines.append(format_line(f"  {fact[0]}", cells))
    missing = [name for name in VARIANTS if name not in found]
    return lines + [_format_other(run, row, name) for name in (*row.others, *missing)]


def _format_row(run: Run, row: Row) -> list[str]:
    found = summaries(run, row)
    rounds = max((len(one.values) for one in found.values()), default=0)
    unit = f" {row.unit}," if row.unit else ""
    head = f"{row.title}:{unit} {rounds} round{'s' * (rounds != 1)}"
    return [head, *format_facts(run, row, _facts(row, found.get("stock")))]


# What limits the rows of a native machine, by the facts that its samples tell.
_LIMITS = {
    "system_call_us": "calls    a system call takes {:.0f} us; a process pays it",
    "timer_us": "timers   one takes {:.0f} us; sluice has one for each stop",
}


def format_provenance(run: Run) -> list[str]:
    facts = run.provenance
    # Counted instructions do not depend on others.
    loud = facts.other_load_percent > QUIET_PERCENT and facts.accelerator != vm.COUNTED
    dirty = " with changes" if facts.module_dirty else ""
    qemu = facts.qemu_version.partition(" (")[0].replace("emulator version ", "")
    lines = [
        f"kernel   {facts.kernel_package}",
        f"module   {facts.module_commit[:12]}{dirty}",
        f"host     {facts.host_cpus} x {facts.host_cpu}"[:WIDTH],
        f"VM       {facts.accelerator}, {facts.vcpus} vCPUs, "
        f"{facts.memory_mb} MB, {qemu}"[:WIDTH],
        f"date     {facts.date}, boot {facts.boot_id}",
        f"others   used {facts.other_load_percent:.0f} % of the host meanwhile"
        + (": NOT QUIET" if loud else ""),
    ]
    if facts.accelerator == ACCELERATOR:
        lines += ["hook     a call at the entry of tun_net_xmit() stands in for ftrace"]
    samples = (m.sample["extra"] for m in run.measurements if m.sample)
    told: dict[str, Any] = next(samples, {})
    return lines + [_LIMITS[one].format(told[one]) for one in _LIMITS if one in told]


def format_table(run: Run) -> str:
    lines = [format_line("", VARIANTS)]
    for row in run.rows:
        lines += [*_format_row(run, row), ""]
    return "\n".join([*lines, *format_provenance(run)])


_COVER = "{:<21}{:>6}  {:<17}{:<17}{:>13}"


def format_for_cover(run: Run, rows: Sequence[str]) -> str:
    """Those rows in which the series was measured, beside stock and IFF_BACKPRESSURE, for
    mail: 76 columns at most."""
    lines = []
    for row in run.rows:
        every = summaries(run, row)
        stock, flag, own = found = [every.get(v) for v in ("stock", "upstream", SERIES)]
        if row.name in rows and stock and own:
            ratios = [format_ratio(one, stock) for one in (flag, own)]
            pings = "/".join(format_ms(s.ping_ms[50] if s else None) for s in found)
            median = format_number(stock.median)
            lines.append(_COVER.format(row.name, median, *ratios, pings))
    facts = run.provenance
    release = facts.kernel_package.split()[1].partition("-")[0]
    where = f"Linux {release}, {facts.accelerator}, {facts.vcpus} x {facts.host_cpu}"
    head = _COVER.format("", "stock", "flag", "series", "ping p50, ms")
    return "\n".join([f"{where}, {facts.module_commit[:12]} of sluice.\n", head, *lines])


_COLOURS = {"reached": 32, "SHORT": 31, "not decided": 33}


def format_finding(finding: Finding, colour: bool) -> str:
    text = f"{finding.verdict:11} {finding.row}: {finding.demand}: {finding.got}"
    text = textwrap.fill(text, WIDTH, subsequent_indent=" " * 12)
    return f"\033[{_COLOURS[finding.verdict]}m{text}\033[0m" if colour else text


def format_report(run: Run, colour: bool = False) -> str:
    findings = all_findings(run)
    lines = [format_table(run), "", *(format_finding(one, colour) for one in findings)]
    counts = Counter(one.verdict for one in findings)
    undecided = counts["not decided"]
    rest = f", {undecided} not decided: the samples disagree" if undecided else ""
    lines.append(f"{counts['reached']} of {len(findings)} figures reached{rest}")
    return "\n".join([*lines, *(f"kernel: {line}" for line in run.trouble)])
