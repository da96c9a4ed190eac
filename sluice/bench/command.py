# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice bench: stock and sluice side by side on this machine."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from sluice import options, output, system
from sluice.bench import plot, testbed
from sluice.bench.plot import Bar, Chart
from sluice.bench.testbed import Load
from sluice.errors import FINE, NO, Denied, SluiceError, Unsuitable
from sluice.output import Text

VARIANTS = ("stock", "sluice")
LOADS = {"udp": "UDP flood", "tcp": "TCP, one stream"}


@dataclass(frozen=True)
class Measured:
    """One load in one round."""

    variant: str
    load: str
    lost: int  # at the rings of both devices
    result: Load

    @property
    def mbit(self) -> float:
        return self.result.bytes * 8 / self.result.seconds / 1e6


@dataclass(frozen=True)
class Summary:
    """One load and variant in all rounds."""

    variant: str
    load: str
    mbit: float  # received: the median of the rounds
    mbit_least: float
    mbit_most: float
    sent: int  # packets; 0: unknown
    received: int
    lost: int
    probes: int
    probes_back: int
    ping_ms: float | None  # median of the probes that were answered
    ping_ms_95: float | None


@dataclass(frozen=True)
class Machine:
    """Where it was measured."""

    kernel: str
    cpus: int
    module: str
    rounds: int
    seconds: float
    work_us: int


def percentile(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


def summarise(measured: list[Measured]) -> list[Summary]:
    found = []
    for load in LOADS:
        for variant in VARIANTS:
            rounds = [m for m in measured if (m.load, m.variant) == (load, variant)]
            rates = [one.mbit for one in rounds]
            rtts = [rtt for one in rounds for rtt in one.result.rtts_ms]
            found.append(
                Summary(
                    variant,
                    load,
                    statistics.median(rates),
                    min(rates),
                    max(rates),
                    sum(one.result.sent for one in rounds),
                    sum(one.result.packets for one in rounds),
                    sum(one.lost for one in rounds),
                    sum(one.result.probes for one in rounds),
                    len(rtts),
                    percentile(rtts, 0.5),
                    percentile(rtts, 0.95),
                )
            )
    return found


def format_rate(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


def _received(one: Summary) -> Bar:
    least, most = format_rate(one.mbit_least), format_rate(one.mbit_most)
    text = f"{format_rate(one.mbit)} Mbit/s ({least} to {most})"
    return Bar(one.variant, one.mbit, text)


def _lost(one: Summary) -> Bar:
    of = f" of {one.sent}" if one.sent else ""
    return Bar(one.variant, one.lost, f"{one.lost}{of} packets")


def _ping(one: Summary) -> Bar:
    back = f"{one.probes_back} of {one.probes} back"
    if one.ping_ms is None or one.ping_ms_95 is None:
        return Bar(one.variant, 0, back)
    text = f"{one.ping_ms:.1f} ms, 95 %: {one.ping_ms_95:.1f} ms, {back}"
    return Bar(one.variant, one.ping_ms, text)


FIGURES = {
    "received": _received,
    "lost at the ring": _lost,
    "ping under load": _ping,
}


def charts(summaries: list[Summary]) -> list[Chart]:
    return [
        Chart(
            f"{title}: {figure}",
            tuple(bar(one) for one in summaries if one.load == load),
        )
        for load, title in LOADS.items()
        for figure, bar in FIGURES.items()
    ]


def format_notes(machine: Machine) -> list[str]:
    rounds = output.count(machine.rounds, "round")
    return [
        f"Linux {machine.kernel}, {output.count(machine.cpus, 'CPU')}, sluice "
        f"{machine.module}",
        f"{rounds} of {machine.seconds:g} s, in turn; the reader works "
        f"{machine.work_us} us for each packet",
    ]


def verdict(summaries: list[Summary]) -> tuple[int, str]:
    lost = {v: sum(s.lost for s in summaries if s.variant == v) for v in VARIANTS}
    if lost["sluice"]:
        packets = output.count(lost["sluice"], "packet")
        return NO, f"sluice lost {packets} at the ring; see: sluice doctor"
    if not lost["stock"]:
        return FINE, "stock lost nothing either: try a slower reader, --work-us"
    packets = output.count(lost["stock"], "packet")
    return FINE, f"sluice lost nothing at the ring, stock {packets}"


def _writes_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def format_bench(machine: Machine, summaries: list[Summary]) -> list[str | Text]:
    lines: list[str | Text] = [*format_notes(machine)]
    for chart in charts(summaries):
        lines += ["", *plot.format_chart(chart, _writes_unicode())]
    code, text = verdict(summaries)
    style = output.good if code == FINE else output.bad
    return [*lines, "", *(style(line) for line in output.wrap(text, rest="  "))]


def measure(rounds: int, seconds: float, work_us: int) -> list[Measured]:
    measured = []
    with testbed.testbed(work_us) as bed, output.progress() as show:
        for number in range(1, rounds + 1):
            for variant in VARIANTS:
                bed.switch(variant == "sluice")
                for load, title in LOADS.items():
                    show(f"round {number} of {rounds}: {variant}, {title}")
                    before = bed.read_drops()
                    result = testbed.run_load(bed, load, seconds)
                    lost = bed.read_drops() - before
                    if not result.bytes or not result.seconds:
                        raise SluiceError(
                            f"bench: {variant}, {title}: nothing was received; "
                            "see: sluice doctor"
                        )
                    measured.append(Measured(variant, load, lost, result))
    return measured


def _check_machine() -> str:
    """The version of the loaded module; Unsuitable if it is not loaded."""
    if not system.is_root():
        raise Denied("bench: makes network namespaces; run it as root")
    if not system.has_tun():
        raise Unsuitable("bench: there is no /dev/net/tun; run: modprobe tun")
    version = system.read_module_version()
    if not version:
        raise Unsuitable("module: not loaded; see: sluice doctor")
    return version


def _check_picture(path: str) -> None:
    """Check the picture's path before the measurement, which takes a minute."""
    folder = Path(path).absolute().parent
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise SluiceError(f"{path}: cannot be written; choose another place")


@click.command()
@click.option(
    "--rounds", type=options.WholeNumber(1, 99), default=3, show_default=True,
    metavar="N", help="How often each of stock and sluice is measured.",
)
@click.option(
    "--seconds", type=options.Number(0.2, 60), default=2, show_default=True,
    metavar="SECONDS", help="How long each load lasts.",
)
@click.option(
    "--work-us", type=options.WholeNumber(0, 10_000), default=50, show_default=True,
    metavar="US", help="The reader's work for each packet (microseconds).",
)
@click.option(
    "--svg", default="", metavar="FILE", help="Write the result to it as a picture, too.",
    type=click.Path(dir_okay=False),
)
@options.json_option
def bench(rounds: int, seconds: float, work_us: int, svg: str, as_json: bool) -> int:
    """Compare stock and sluice on this machine, in half a minute.

    Two namespaces of its own, a slow reader between their tun devices: no
    device of yours is touched, and nothing stays.
    """
    version = _check_machine()
    if svg:
        _check_picture(svg)
    machine = Machine(
        platform.release(), os.cpu_count() or 1, version, rounds, seconds, work_us
    )
    summaries = summarise(measure(rounds, seconds, work_us))
    code, text = verdict(summaries)
    if svg:
        title = "stock and sluice on one machine"
        picture = plot.format_svg(title, charts(summaries), format_notes(machine))
        Path(svg).write_text(picture, encoding="utf-8")
    if as_json:
        results = [asdict(one) for one in summaries]
        output.say_json({"machine": machine, "results": results, "verdict": text})
    else:
        output.say(format_bench(machine, summaries))
    return code
