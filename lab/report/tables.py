# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of a run, and which of the required figures it reaches."""

from __future__ import annotations

import math
import os
import statistics
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lab import sure
from lab.machines import vm
from lab.machines.matrix import VARIANTS
from lab.machines.native.boot import ACCELERATOR
from lab.report.published import PUBLISHED
from lab.report.results import COUNTED, Provenance, Run, Summary
from lab.report.results import summarise, why_missing
from lab.row import SERIES, Row, parse_variant
from lab.sure import SURE_PERCENT

WIDTH = 80
# Medians within this share count as equal if the spreads overlap.
EQUAL = 0.97
# What a prompt row's ping may be of another's, by percentile.
PROMPT = {50: 1 / 5, 99: 1 / 3}
# If others use more of the host, the numbers are not reliable.
QUIET_PERCENT = 10.0
_LABEL, _COLUMN, _RATIO = 35, 13, 6


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


def format_number(value: float) -> str:
    """At most three digits and a unit letter: 365, 1.28M, 0.94."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return _three_digits(value / size) + letter
    if value == int(value):
        return f"{value:.0f}"
    return _three_digits(value)


def _three_digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def is_equal(one: Summary, other: Summary) -> bool:
    """Not lower than the other by more than chance explains."""
    overlap = one.low <= other.high and other.low <= one.high
    return overlap and one.median >= EQUAL * other.median


def ratio(one: Summary | None, other: Summary | None) -> float | None:
    """See lab.sure."""
    if one is None or other is None:
        return None
    return sure.ratio(one.values, other.values)


def ratio_interval(
    one: Summary | None, other: Summary | None
) -> tuple[float, float] | None:
    """See lab.sure."""
    if one is None or other is None:
        return None
    return sure.ratio_interval(one.values, other.values)


def format_interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f}-{interval[1]:.2f}"


def _against_stock(
    row: Row, name: str, stock: Summary, sluice: Summary, lossless: Summary | None
) -> Finding:
    """The row's floor, against stock, or else against stock with the lossless ring."""
    floor = row.floor or 0.0
    share = ratio(sluice, stock) or 0.0
    reached = share >= floor
    got = f"{share:.2f}x" if reached else f"{share:.3f}x"
    if not reached and floor == 1.0 and is_equal(sluice, stock):
        got, reached = got + ", within the spread", True
    interval = None if reached else ratio_interval(sluice, stock)
    if interval:
        got += f" ({format_interval(interval)}, {SURE_PERCENT} % sure)"
    other_share = None if reached else ratio(sluice, lossless)
    if other_share is not None:
        got += f"; of stock with a ring of {row.lossless_ring} {other_share:.2f}x"
        reached = other_share >= floor
    return Finding(name, f"at least {floor:.2f}x stock", got, reached, of_rates=True)


def _against_upstream(row: Row, upstream: Summary, sluice: Summary) -> Finding:
    share = ratio(sluice, upstream) or 0.0
    got = f"{share:.2f}x"
    if row.above_upstream:
        return Finding(row.name, "above upstream", got, share > 1, of_rates=True)
    reached = share >= 1
    if not reached and is_equal(sluice, upstream):
        got, reached = got + ", within the spread", True
    return Finding(row.name, "at least upstream", got, reached, of_rates=True)


def _ping_against(row: Row, name: str, other: Summary, sluice: Summary) -> list[Finding]:
    findings = []
    for percent, most in PROMPT.items():
        own, theirs = (getattr(s, f"ping_p{percent}_ms") for s in (sluice, other))
        demand = f"ping p{percent} at most {most:.2f}x {name}"
        if own is None or theirs is None:
            findings.append(Finding(row.name, demand, "no answer came", False))
            continue
        got = f"{own / theirs:.2f}x"
        findings.append(Finding(row.name, demand, got, own <= most * theirs))
    return findings


def _median_ping(summary: Summary) -> float:
    """Of all pings sent, ms; infinite if most were not answered."""
    lost = summary.ping_answered is not None and summary.ping_answered < 0.5
    return math.inf if lost or summary.ping_p50_ms is None else summary.ping_p50_ms


def _latency(row: Row, name: str, stock: Summary, sluice: Summary) -> Finding:
    """The median ping without the delay of the path."""
    most = row.latency_share or 0.0
    demand = f"ping at most {most:.2f}x stock's"
    before, after = (max(0.0, _median_ping(s) - row.path_ms) for s in (stock, sluice))
    told = (f"{ms:.0f} ms" if ms < math.inf else "no answer" for ms in (after, before))
    reached = after < math.inf and after <= most * before
    return Finding(name, demand, " of ".join(told), reached)


def _owed(
    row: Row, name: str, stock: Summary, sluice: Summary, lossless: Summary | None = None
) -> list[Finding]:
    """The requirements that hold for any target_us."""
    findings = []
    if row.lossless:
        lost = sluice.lost_at_ring
        got = f"{lost:,} lost"
        findings.append(Finding(name, "0 lost at the ring", got, lost == 0))
    if row.floor is not None:
        findings.append(_against_stock(row, name, stock, sluice, lossless))
    return findings


def _not_measured(run: Run, row: Row, name: str, variant: str) -> Finding:
    why = f"{variant} {why_missing(run, row.name, variant)}"
    return Finding(name, "a measurement", why, False)


def _with_target(run: Run, row: Row, stock: Summary, target: int) -> list[Finding]:
    variant, name = f"sluice@{target}", f"{row.name}, {target} us"
    sluice = summarise(run, row.name, variant)
    if sluice is None:
        return [_not_measured(run, row, name, variant)]
    findings = _owed(row, name, stock, sluice)
    if row.latency_share is not None:
        findings.append(_latency(row, name, stock, sluice))
    return findings


def _of_series(run: Run, row: Row, stock: Summary, sluice: Summary) -> list[Finding]:
    """The patched drivers lose nothing and are below neither stock nor the module."""
    name = f"{row.name}, {SERIES}"
    own = summarise(run, row.name, SERIES)
    if own is None:
        return [_not_measured(run, row, name, SERIES)]
    floor = None if row.floor is None else 1.0
    findings = _owed(replace(row, floor=floor), name, stock, own)
    share = ratio(own, sluice) or 0.0
    reached = share >= 1 or is_equal(own, sluice)
    got = f"{share:.2f}x"
    return [*findings, Finding(name, "at least sluice", got, reached, of_rates=True)]


def findings_of(run: Run, row: Row) -> list[Finding]:
    """What is demanded of a row, measured or not."""
    found = {name: summarise(run, row.name, name) for name in row.variants}
    stock, upstream, sluice = (found[name] for name in VARIANTS)
    if stock is None or sluice is None:
        absent = "stock" if stock is None else "sluice"
        return [_not_measured(run, row, row.name, absent)]
    lossless = found.get(f"stock-{row.lossless_ring}")
    findings = _owed(row, row.name, stock, sluice, lossless)
    strays = sum(s.unaccounted for s in found.values() if s)
    if strays:
        got = f"{strays:,} are not"
        findings.append(Finding(row.name, "every packet accounted for", got, False))
    if row.latency_share is not None and not row.targets:
        findings.append(_latency(row, row.name, stock, sluice))
    if upstream is not None and (row.above_upstream or row.reaches_upstream):
        findings.append(_against_upstream(row, upstream, sluice))
    if row.prompt:
        findings += _ping_against(row, "stock", stock, sluice)
    if row.prompt and upstream is not None:
        findings += _ping_against(row, "upstream", upstream, sluice)
    for target in row.targets:
        findings += _with_target(run, row, stock, target)
    if row.series:
        findings += _of_series(run, row, stock, sluice)
    undecided = is_undecided(run, row)
    return [replace(one, decided=not (undecided and one.of_rates)) for one in findings]


def is_undecided(run: Run, row: Row) -> bool:
    """Whether the rounds disagree about the ratio of one of its variants."""
    found = {name: summarise(run, row.name, name) for name in row.variants}
    return sure.is_undecided({name: one.values for name, one in found.items() if one})


def all_findings(run: Run) -> list[Finding]:
    return [finding for row in run.rows for finding in findings_of(run, row)]


def lost_nothing(run: Run) -> bool:
    """Whether sluice lost no packet in any row that demands it."""
    summaries = [
        summarise(run, row.name, "sluice") for row in run.rows if row.lossless
    ]
    return bool(summaries) and all(
        summary is not None and summary.lost_at_ring == 0 for summary in summaries
    )


def _line(label: str, cells: list[str], last: str = "") -> str:
    columns = "".join(f"{cell:>{_COLUMN}}" for cell in cells)
    if len(label) > _LABEL:
        label = f"{label[:WIDTH]}\n{'':<{_LABEL}}"
    return f"{label:<{_LABEL}}{columns}{last:>{_RATIO}}".rstrip()


def format_share(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share:.2f}x" if share < 99.995 else ">99x"


def _spread(summary: Summary | None) -> str:
    if summary is None:
        return ""
    return f"{format_number(summary.low)}-{format_number(summary.high)}"


def format_pings(summary: Summary | None) -> str:
    if summary is None or summary.ping_p50_ms is None:
        return "-"
    values = (summary.ping_p50_ms, summary.ping_p99_ms or 0.0)
    return "/".join(f"{value:.0f}" if value >= 1 else "<1" for value in values)


def are_pings_lost(summary: Summary) -> bool:
    """More than those in flight when the load ended."""
    return summary.ping_answered is not None and summary.ping_answered < 0.9


def format_answered(summary: Summary | None) -> str:
    if summary is None or summary.ping_answered is None:
        return "-"
    return f"{100 * summary.ping_answered:.0f}"


def tell_pings(summary: Summary) -> str:
    """Their times, and how many there are, if few."""
    times = format_pings(summary)
    if not are_pings_lost(summary):
        return times
    return f"{times}, {format_answered(summary)} % back"


def _other_line(run: Run, row: Row, name: str, stock: Summary | None) -> str:
    """A variant of a variant, on one line."""
    label = f"  {parse_variant(name)}: "
    one = summarise(run, row.name, name)
    if one is None:
        return (label + why_missing(run, row.name, name))[:WIDTH]
    value, lost = format_number(one.median), format_number(one.lost_at_ring)
    share = format_share(ratio(one, stock)) or "-"
    text = f"{value} ({share}), {lost} lost, ping {tell_pings(one)}"
    return (label + text)[:WIDTH]


def counted_of(summaries: Iterable[Summary | None]) -> dict[str, str]:
    """Those of COUNTED that any summary has with a value other than 0."""
    told = [summary for summary in summaries if summary is not None]
    return {
        name: label
        for name, label in COUNTED.items()
        if any(summary.counted.get(name) for summary in told)
    }


def format_counted(summary: Summary | None, name: str) -> str:
    """One of COUNTED."""
    value = summary.counted.get(name) if summary else None
    return "-" if value is None else format_number(value)


def format_row(run: Run, row: Row) -> list[str]:
    """The lines of one row: value, spread, packets lost, ping, retransmits."""
    found = [summarise(run, row.name, name) for name in VARIANTS]
    share = ratio(found[2], found[0])
    lines = [
        _line(
            row.title,
            [format_number(s.median) if s else "-" for s in found],
            format_share(share),
        )
    ]
    measured = [s for s in found if s]
    rounds = max((s.rounds for s in measured), default=0)
    label = f"  {row.unit}, {rounds} round{'s' if rounds != 1 else ''}, from-to"
    lines.append(_line(label, [_spread(s) for s in found]))
    interval = ratio_interval(found[2], found[0])
    if interval:
        label = f"  sluice : stock, {SURE_PERCENT} % sure"
        lines.append(_line(label, ["", "", format_interval(interval)]))
    lost = [format_number(s.lost_at_ring) if s else "-" for s in found]
    lines.append(_line("  packets lost at the ring", lost))
    if any(s.ping_p50_ms is not None for s in measured):
        cells = [format_pings(s) for s in found]
        lines.append(_line("  ping p50/p99, ms", cells))
    if any(are_pings_lost(s) for s in measured):
        cells = [format_answered(s) for s in found]
        lines.append(_line("  pings answered, %", cells))
    for name, label in counted_of(measured).items():
        counts = [format_counted(s, name) for s in found]
        lines.append(_line(f"  {label}", counts))
    lines += [_other_line(run, row, name, found[0]) for name in row.others]
    for name, summary in zip(VARIANTS, found):
        if summary is None:
            text = f"  {name}: {why_missing(run, row.name, name)}"
            lines.append(text[:WIDTH])
    return lines


def is_disturbed(facts: Provenance) -> bool:
    """Whether other processes used the host; counted instructions do not depend on it."""
    counted = facts.accelerator == vm.COUNTED
    return not counted and facts.other_load_percent > QUIET_PERCENT


def format_provenance(run: Run) -> list[str]:
    facts = run.provenance
    dirty = " with changes" if facts.module_dirty else ""
    qemu = facts.qemu_version.partition(" (")[0].replace("emulator version ", "")
    return [
        f"kernel   {facts.kernel_package}",
        f"module   {facts.module_commit[:12]}{dirty}",
        f"host     {facts.host_cpus} x {facts.host_cpu}"[:WIDTH],
        f"VM       {facts.accelerator}, {facts.vcpus} vCPUs, "
        f"{facts.memory_mb} MB, {qemu}"[:WIDTH],
        f"date     {facts.date}, boot {facts.boot_id}",
        f"others   used {facts.other_load_percent:.0f} % of the host meanwhile"
        + (": NOT QUIET" if is_disturbed(facts) else ""),
        *format_native(run),
    ]


def format_native(run: Run) -> list[str]:
    """What limits the rows of a native machine."""
    if run.provenance.accelerator != ACCELERATOR:
        return []
    extras = [m.sample["extra"] for m in run.measurements if m.sample]
    calls = [extra["system_call_us"] for extra in extras if "system_call_us" in extra]
    took = statistics.median(calls or [0.0])
    return [
        "hook     a call at the entry of tun_net_xmit() stands in for ftrace",
        f"calls    a system call takes {took:.0f} us; a reader that is a process pays it",
        *format_lateness(run),
    ]


def format_lateness(run: Run) -> list[str]:
    """How late the kernel's timers came, where that was measured."""
    samples = [m.sample["extra"].get("late_us") for m in run.measurements if m.sample]
    told = [late for late in samples if late and late["p50"] is not None]
    if not told:
        return []
    medians = [
        f"{name} {statistics.median(late[name] for late in told):.0f}"
        for name in ("p50", "p95", "p99")
    ]
    return [f"timers   late by {', '.join(medians)} us at most (median sample)"]


def format_table(run: Run) -> str:
    lines = [_line("", list(VARIANTS), "ratio")]
    for row in run.rows:
        lines += [*format_row(run, row), ""]
    return "\n".join([*lines, *format_provenance(run)])


def published_cells(run: Run) -> list[list[str]]:
    """Their figure beside ours: where, what, their ratio and lost, our row, our
    ratio and lost. Only what this run measured."""
    cells = []
    rows = {row.name: row for row in run.rows}
    for one in PUBLISHED:
        stock, sluice = (summarise(run, one.row, v) for v in ("stock", "sluice"))
        share = ratio(sluice, stock)
        if share is None or sluice is None:
            continue
        theirs = [f"{one.ratio:.2f}x", one.lost]
        lost = format_number(sluice.lost_at_ring)
        ours = [rows[one.row].title, format_share(share), lost]
        cells.append([one.where, one.what, *theirs, *ours])
    return cells


def _cover_cells(
    name: str, stock: str, flag: str, series: str, lost: str, ping: str
) -> str:
    line = f"{name:<21}{stock:>6}{flag:>6}  {series:<15}{lost:>17}{ping:>12}"
    return line.rstrip()


def _cover_line(run: Run, row: Row) -> str | None:
    """None if stock or the series was not measured."""
    found = [summarise(run, row.name, name) for name in ("stock", "upstream", SERIES)]
    stock, flag, own = found
    if stock is None or own is None:
        return None
    interval = ratio_interval(own, stock)
    share = format_share(ratio(own, stock))
    lost = "/".join(format_number(s.lost_at_ring) if s else "-" for s in found)
    pings = " ".join(format_pings(s) for s in (stock, own))
    if interval:
        share += f" {format_interval(interval)}"
    known = format_share(ratio(flag, stock)) or "-"
    return _cover_cells(row.name, format_number(stock.median), known, share, lost, pings)


def format_for_cover(run: Run) -> str:
    """The series beside stock and IFF_BACKPRESSURE, for mail: 79 columns at most.

    Empty if the run has not measured the series.
    """
    lines = [line for row in run.rows if (line := _cover_line(run, row))]
    if not lines:
        return ""
    facts = run.provenance
    return "\n".join(
        [
            f"Linux {facts.kernel_package.split()[1].partition('-')[0]}, "
            f"{facts.accelerator}, {facts.vcpus} CPUs; stock in Mbit/s or packets/s;",
            "flag (IFF_BACKPRESSURE, set by the reader) and series as ratios to stock,",
            f"the latter with its {SURE_PERCENT} % interval; packets lost at the ring by",
            "stock, flag and series; ping p50/p99 in ms of stock and of the series.",
            "",
            _cover_cells("", "stock", "flag", "series", "lost", "ping"),
            *lines,
        ]
    )


def format_published(run: Run) -> str:
    """Empty if no row of this run was published."""
    cells = published_cells(run)
    if not cells:
        return ""
    lines = [f"{'published, patched : stock, lost':<46}{'sluice : stock, lost':>32}"]
    for where, what, theirs, lost, _, ours, own in cells:
        left = f"{where:<5} {what:<24}{theirs:>6}  {lost}"
        lines.append(f"{left:<56}{ours:>8}  {own:>12}")
    return "\n".join(lines) + "\n"


_COLOURS = {"reached": 32, "SHORT": 31, "not decided": 33}


def format_findings(findings: list[Finding], colour: bool) -> str:
    lines = []
    for finding in findings:
        text = f"{finding.verdict:11} {finding.row}: {finding.demand}: {finding.got}"
        text = textwrap.fill(text, WIDTH, subsequent_indent=" " * 12)
        if colour:
            text = f"\033[{_COLOURS[finding.verdict]}m{text}\033[0m"
        lines.append(text)
    reached, undecided = (
        sum(finding.verdict == verdict for finding in findings)
        for verdict in ("reached", "not decided")
    )
    told = f", {undecided} not decided: the samples disagree" if undecided else ""
    lines.append(f"{reached} of {len(findings)} figures reached{told}")
    return "\n".join(lines)


def read_colour() -> bool:
    """Whether the one who reads wants colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
