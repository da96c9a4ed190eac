# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of a run as text, and which of the required figures it reaches."""

from __future__ import annotations

import math
import os
import statistics
import sys
import textwrap
from dataclasses import dataclass, replace

from lab import sure
from lab.machines import vm
from lab.machines.native.boot import ACCELERATOR
from lab.report.published import PUBLISHED
from lab.report.results import COUNTED, Run, Summary
from lab.report.results import summaries, why_missing
from lab.row import SERIES, VARIANTS, Row, parse_variant
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
    return sure.ratio(one.values, other.values) if one and other else None


def ratio_interval(
    one: Summary | None, other: Summary | None
) -> tuple[float, float] | None:
    """See lab.sure."""
    return sure.ratio_interval(one.values, other.values) if one and other else None


def format_interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f}-{interval[1]:.2f}"


def _compare(
    name: str, demand: str, one: Summary, other: Summary, floor: float = 1.0
) -> Finding:
    """Rates: a floor of 1 is reached within the spread, too."""
    share = ratio(one, other) or 0.0
    if share >= floor:
        got, reached = f"{share:.2f}x", True
    else:
        reached = floor == 1.0 and is_equal(one, other)
        got = f"{share:.3f}x" + (", within the spread" if reached else "")
    return Finding(name, demand, got, reached, of_rates=True)


def _against_stock(
    row: Row, name: str, stock: Summary, sluice: Summary, lossless: Summary | None
) -> Finding:
    """The row's floor, against stock, or else against stock with the lossless ring."""
    floor = row.floor or 0.0
    found = _compare(name, f"at least {floor:.2f}x stock", sluice, stock, floor)
    if found.reached:
        return found
    got, reached = found.got, False
    if interval := ratio_interval(sluice, stock):
        got += f" ({format_interval(interval)}, {SURE_PERCENT} % sure)"
    if (share := ratio(sluice, lossless)) is not None:
        got += f"; of stock with a ring of {row.lossless_ring} {share:.2f}x"
        reached = share >= floor
    return replace(found, got=got, reached=reached)


def _against_upstream(row: Row, upstream: Summary, sluice: Summary) -> list[Finding]:
    found = []
    if row.above_upstream:
        share = ratio(sluice, upstream) or 0.0
        one = Finding(row.name, "above upstream", f"{share:.2f}x", share > 1, True)
        found.append(one)
    elif row.reaches_upstream:
        found.append(_compare(row.name, "at least upstream", sluice, upstream))
    return found + _ping_against(row, "upstream", upstream, sluice)


def _ping_against(row: Row, name: str, other: Summary, sluice: Summary) -> list[Finding]:
    findings = []
    for percent, most in PROMPT.items() if row.prompt else ():
        own, theirs = (getattr(s, f"ping_p{percent}_ms") for s in (sluice, other))
        demand = f"ping p{percent} at most {most:.2f}x {name}"
        known = own is not None and theirs is not None
        got = f"{own / theirs:.2f}x" if known else "no answer came"
        findings.append(Finding(row.name, demand, got, known and own <= most * theirs))
    return findings


def _median_ping(summary: Summary) -> float:
    """Of all pings sent, ms; infinite if most were not answered."""
    lost = summary.ping_answered is not None and summary.ping_answered < 0.5
    if lost or summary.ping_p50_ms is None:
        return math.inf
    return summary.ping_p50_ms


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
        findings.append(Finding(name, "0 lost at the ring", f"{lost:,} lost", lost == 0))
    if row.floor is not None:
        findings.append(_against_stock(row, name, stock, sluice, lossless))
    return findings


def _of_variant(run: Run, row: Row, variant: str, stock: Summary) -> list[Finding]:
    """The patched drivers lose nothing and are below neither stock nor the module; a
    ring that is held to a time owes what the whole one does."""
    found = summaries(run, row)
    own, sluice = found.get(variant), found["sluice"]
    target = parse_variant(variant).target_us
    name = f"{row.name}, {variant if target is None else f'{target} us'}"
    if own is None:
        return [_not_measured(run, row, name, variant)]
    if target is None:
        floor = None if row.floor is None else 1.0
        owed = _owed(replace(row, floor=floor), name, stock, own)
        return [*owed, _compare(name, "at least sluice", own, sluice)]
    owed = _owed(row, name, stock, own)
    return owed + [_latency(row, name, stock, own)] * (row.latency_share is not None)


def _not_measured(run: Run, row: Row, name: str, variant: str) -> Finding:
    why = f"{variant} {why_missing(run, row.name, variant)}"
    return Finding(name, "a measurement", why, False)


def findings_of(run: Run, row: Row) -> list[Finding]:
    """What is demanded of a row, measured or not."""
    found = summaries(run, row)
    for variant in ("stock", "sluice"):
        if variant not in found:
            return [_not_measured(run, row, row.name, variant)]
    stock, sluice = found["stock"], found["sluice"]
    lossless = found.get(f"stock-{row.lossless_ring}")
    findings = _owed(row, row.name, stock, sluice, lossless)
    strays = sum(s.unaccounted for s in found.values())
    if strays:
        got = f"{strays:,} are not"
        findings.append(Finding(row.name, "every packet accounted for", got, False))
    if row.latency_share is not None and not row.targets:
        findings.append(_latency(row, row.name, stock, sluice))
    findings += _ping_against(row, "stock", stock, sluice)
    if "upstream" in found:
        findings += _against_upstream(row, found["upstream"], sluice)
    for variant in row.others:
        if variant.startswith(("sluice@", SERIES)):
            findings += _of_variant(run, row, variant, stock)
    undecided = sure.is_undecided({name: one.values for name, one in found.items()})
    return [replace(one, decided=not (undecided and one.of_rates)) for one in findings]


def all_findings(run: Run) -> list[Finding]:
    return [finding for row in run.rows for finding in findings_of(run, row)]


def lost_nothing(run: Run) -> bool:
    """Whether sluice lost no packet in any row that demands it."""
    found = [summaries(run, row).get("sluice") for row in run.rows if row.lossless]
    return bool(found) and all(one and one.lost_at_ring == 0 for one in found)


def _line(label: str, cells: list[str], last: str = "") -> str:
    columns = "".join(f"{cell:>{_COLUMN}}" for cell in cells)
    if len(label) > _LABEL:
        label = f"{label[:WIDTH]}\n{'':<{_LABEL}}"
    return f"{label:<{_LABEL}}{columns}{last:>{_RATIO}}".rstrip()


def format_share(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share:.2f}x" if share < 99.995 else ">99x"


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


def _other_line(run: Run, row: Row, name: str) -> str:
    """A variant of a variant, on one line."""
    found = summaries(run, row)
    one = found.get(name)
    if one is None:
        text = why_missing(run, row.name, name)
    else:
        share = format_share(ratio(one, found.get("stock"))) or "-"
        lost = format_number(one.lost_at_ring)
        text = f"{format_number(one.median)} ({share}), {lost} lost"
        text += f", ping {format_pings(one)}"
        if are_pings_lost(one):
            text += f", {format_answered(one)} % back"
    return f"  {parse_variant(name)}: {text}"[:WIDTH]


def _facts_of(run: Run, row: Row) -> list[tuple[str, list[str]]]:
    """What the table tells of each variant besides its rate: label and cells."""
    every = summaries(run, row)
    found = [every.get(name) for name in VARIANTS]
    measured = [one for one in found if one]
    facts = []

    def tell(label: str, cells: list[str], when: bool = True) -> None:
        if when:
            facts.append((f"  {label}", cells))

    rounds = max((one.rounds for one in measured), default=0)
    ends = [(format_number(s.low), format_number(s.high)) if s else () for s in found]
    spreads = ["-".join(both) for both in ends]
    tell(f"{row.unit}, {rounds} round{'s' * (rounds != 1)}, from-to", spreads)
    intervals = [ratio_interval(one, found[0]) for one in found[1:]]
    told = [format_interval(interval) if interval else "" for interval in intervals]
    tell(f"ratio to stock, {SURE_PERCENT} % sure", ["", *told], any(told))
    lost = [format_number(s.lost_at_ring) if s else "-" for s in found]
    tell("packets lost at the ring", lost)
    pinged = any(one.ping_p50_ms is not None for one in measured)
    tell("ping p50/p99, ms", [format_pings(s) for s in found], pinged)
    answered = [format_answered(s) for s in found]
    tell("pings answered, %", answered, any(map(are_pings_lost, measured)))
    for name, label in COUNTED.items():
        values = [s.counted.get(name) if s else None for s in found]
        cells = ["-" if value is None else format_number(value) for value in values]
        tell(label, cells, any(values))
    return facts


def format_row(run: Run, row: Row) -> list[str]:
    found = summaries(run, row)
    medians = [format_number(found[v].median) if v in found else "-" for v in VARIANTS]
    share = format_share(ratio(found.get("sluice"), found.get("stock")))
    return [
        _line(row.title, medians, share),
        *(_line(label, cells) for label, cells in _facts_of(run, row)),
        *(_other_line(run, row, name) for name in row.others),
        *(
            f"  {name}: {why_missing(run, row.name, name)}"[:WIDTH]
            for name in VARIANTS
            if name not in found
        ),
    ]


def format_provenance(run: Run) -> list[str]:
    facts = run.provenance
    # Counted instructions do not depend on others.
    loud = facts.other_load_percent > QUIET_PERCENT and facts.accelerator != vm.COUNTED
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
        + (": NOT QUIET" if loud else ""),
        *format_native(run),
    ]


def format_native(run: Run) -> list[str]:
    """What limits the rows of a native machine."""
    if run.provenance.accelerator != ACCELERATOR:
        return []
    extras = [m.sample["extra"] for m in run.measurements if m.sample]
    calls = [extra["system_call_us"] for extra in extras if "system_call_us" in extra]
    took = statistics.median(calls or [0.0])
    lines = [
        "hook     a call at the entry of tun_net_xmit() stands in for ftrace",
        f"calls    a system call takes {took:.0f} us; a reader that is a process pays it",
    ]
    late = [one for extra in extras if (one := extra.get("late_us"))]
    late = [one for one in late if one["p50"] is not None]
    if late:
        told = (f"{p} {statistics.median(one[p] for one in late):.0f}" for p in late[0])
        lines.append(f"timers   late by {', '.join(told)} us at most (median sample)")
    return lines


def format_table(run: Run) -> str:
    lines = [_line("", list(VARIANTS), "ratio")]
    for row in run.rows:
        lines += [*format_row(run, row), ""]
    return "\n".join([*lines, *format_provenance(run)])


def format_published(run: Run) -> str:
    """Others' figures beside ours; empty if no row of this run was published."""
    lines = [f"{'published, patched : stock, lost':<46}{'sluice : stock, lost':>32}"]
    rows = {row.name: row for row in run.rows}
    for one in PUBLISHED:
        found = summaries(run, rows[one.row]) if one.row in rows else {}
        sluice = found.get("sluice")
        share = ratio(sluice, found.get("stock"))
        if sluice is None or share is None:
            continue
        theirs, own = f"{one.ratio:.2f}x", format_number(sluice.lost_at_ring)
        left = f"{one.where:<5} {one.what:<24}{theirs:>6}  {one.lost}"
        lines.append(f"{left:<56}{format_share(share):>8}  {own:>12}")
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def _cover_cells(
    name: str, stock: str, flag: str, series: str, lost: str, ping: str
) -> str:
    line = f"{name:<24}{stock:>6}{flag:>6}  {series:<15}{lost:>12}{ping:>13}"
    return line.rstrip()


def _cover_line(run: Run, row: Row) -> str | None:
    """None if stock or the series was not measured."""
    every = summaries(run, row)
    found = [every.get(name) for name in ("stock", "upstream", SERIES)]
    stock, flag, own = found
    if stock is None or own is None:
        return None
    interval = ratio_interval(own, stock)
    share = format_share(ratio(own, stock))
    lost = "/".join(format_number(s.lost_at_ring) for s in (stock, own))
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
            "stock and series; ping p50/p99 in ms of stock and of the series.",
            "",
            _cover_cells("", "stock", "flag", "series", "lost", "ping"),
            *lines,
        ]
    )


_COLOURS = {"reached": 32, "SHORT": 31, "not decided": 33}


def format_findings(findings: list[Finding], colour: bool) -> str:
    lines = []
    for finding in findings:
        text = f"{finding.verdict:11} {finding.row}: {finding.demand}: {finding.got}"
        text = textwrap.fill(text, WIDTH, subsequent_indent=" " * 12)
        if colour:
            text = f"\033[{_COLOURS[finding.verdict]}m{text}\033[0m"
        lines.append(text)
    verdicts = [finding.verdict for finding in findings]
    undecided = verdicts.count("not decided")
    told = f", {undecided} not decided: the samples disagree" if undecided else ""
    reached = verdicts.count("reached")
    lines.append(f"{reached} of {len(findings)} figures reached{told}")
    return "\n".join(lines)


def read_colour() -> bool:
    """Whether the one who reads wants colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def format_report(run: Run, colour: bool = False) -> str:
    """The table, what others published, the findings, the kernel's complaints."""
    parts = [format_table(run) + "\n"]
    if published := format_published(run):
        parts.append(published)
    parts.append(format_findings(all_findings(run), colour))
    parts += [f"kernel: {line}" for line in run.trouble]
    return "\n".join(parts)
