# SPDX-License-Identifier: GPL-2.0-or-later
"""What a bench run measured, where it was measured, and what it says."""

from __future__ import annotations

import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from lab.cache import cache_dir
from lab.failure import LabError, UsageError
from lab.guest.host import others_percent
from lab.guest.latency import percentile
from lab.machines.native.boot import read_busy_seconds
from lab.machines.vm import REPOSITORY, Machine, accelerator
from lab.row import Row


@dataclass(frozen=True)
class Provenance:
    date: str
    kernel: str  # in the lab's table
    kernel_package: str  # name and version
    module_commit: str
    module_dirty: bool  # kmod/ had changes that are in no commit
    host_cpu: str
    host_cpus: int
    accelerator: str
    qemu_version: str
    qemu_command: list[str]
    vcpus: int
    memory_mb: int
    boot_id: str
    command_line: list[str]
    other_load_percent: float  # of the host's CPUs, by others than the VM


@dataclass(frozen=True)
class Measurement:
    round: int
    row: str
    variant: str
    status: str  # measured, skipped, failed, lost
    reason: str
    sample: dict[str, Any] | None


@dataclass(frozen=True)
class Run:
    provenance: Provenance
    rows: list[Row]
    measurements: list[Measurement]
    planned: int
    trouble: list[str] = field(default_factory=list)

    def of(self, row: str, variant: str) -> list[Measurement]:
        return [m for m in self.measurements if (m.row, m.variant) == (row, variant)]

    @property
    def complete(self) -> bool:
        """Everything planned was measured, or its variant does not exist."""
        settled = [m for m in self.measurements if m.status in ("measured", "skipped")]
        return self.planned > 0 and len(settled) == self.planned


@dataclass(frozen=True)
class Summary:
    """One row under one variant: the median of its rounds, and the spread."""

    values: dict[int, float]  # by round
    median: float
    low: float
    high: float
    lost_at_ring: int  # in all rounds
    unaccounted: int
    ping_ms: dict[int, float | None]  # by percent: 50, 95 and 99
    ping_answered: float | None  # share of all that were sent; None: not told
    retransmits: float | None  # the median
    silence_ms: float | None  # of a living peer, the longest; the median


def _median(values: Iterable[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _share_answered(samples: list[dict[str, Any]]) -> float | None:
    extras = [sample["extra"] for sample in samples]
    sent = sum(extra.get("pings_sent", 0) for extra in extras)
    received = sum(extra.get("pings_received", 0) for extra in extras)
    return received / sent if sent else None


def summarise(run: Run, row: str, variant: str) -> Summary | None:
    by_round = {m.round: m.sample for m in run.of(row, variant) if m.sample is not None}
    if not by_round:
        return None
    samples = list(by_round.values())
    values = {number: sample["value"] for number, sample in by_round.items()}
    return Summary(
        values=values,
        median=statistics.median(values.values()),
        low=min(values.values()),
        high=max(values.values()),
        lost_at_ring=sum(sample["lost_at_ring"] for sample in samples),
        unaccounted=sum(abs(sample["unaccounted"]) for sample in samples),
        ping_ms={
            50: _median(sample["ping_p50_ms"] for sample in samples),
            95: _median(percentile(s.get("pings_ms", []), 95) for s in samples),
            99: _median(sample["ping_p99_ms"] for sample in samples),
        },
        ping_answered=_share_answered(samples),
        retransmits=_median(s["extra"].get("retransmits") for s in samples),
        silence_ms=_median(s["extra"].get("silence_ms") for s in samples),
    )


def summaries(run: Run, row: Row) -> dict[str, Summary]:
    """Of each of the row's variants that was measured."""
    found = {name: summarise(run, row.name, name) for name in row.variants}
    return {name: one for name, one in found.items() if one}


def why_missing(run: Run, row: str, variant: str) -> str:
    missing = (m for m in run.of(row, variant) if m.status != "measured")
    return next((f"{m.status}: {m.reason}".strip(": ") for m in missing), "not reached")


def parse_run(text: str, name: str = "results") -> Run:
    try:
        facts = json.loads(text)
        return run_of(Provenance(**facts["provenance"]), facts, facts["trouble"])
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"{name}: not a run of rows ({error}); name another, or measure again"
        ) from error


def read_run(path: Path) -> Run:
    try:
        return parse_run(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: cannot be read ({reason}); name a result") from error


PINGS_KEPT = 21  # of a sample: evenly spaced among its times, first and last included
DIGITS = 6


def _compact(value: Any) -> Any:
    """What a run is saved with: no more digits than it was measured to."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _compact(one) for name, one in value.items()}
    return [_compact(one) for one in value] if isinstance(value, list) else value


def format_run(run: Run) -> str:
    whole = asdict(run)
    for one in whole["measurements"]:
        if one["sample"]:
            pings = one["sample"].get("pings_ms", [])
            if len(pings) > PINGS_KEPT:
                step = (len(pings) - 1) / (PINGS_KEPT - 1)
                pings = [pings[round(place * step)] for place in range(PINGS_KEPT)]
            one["sample"] = _compact({**one["sample"], "pings_ms": pings})
    return json.dumps(whole, separators=(",", ":")) + "\n"


def run_of(provenance: Provenance, result: dict[str, Any], trouble: list[str]) -> Run:
    """From what the guest writes. Fields of rows that are no longer used are ignored."""
    known = {one.name for one in fields(Row)}
    rows = [{n: v for n, v in row.items() if n in known} for row in result["rows"]]
    return Run(
        provenance,
        [Row(**row) for row in rows],
        [Measurement(**m) for m in result["measurements"]],
        result["planned"],
        trouble,
    )


def read_git(*arguments: str) -> str:
    """What git says of the tree; nothing if this is no repository."""
    command = ["git", "-c", "safe.directory=*", "-C", str(REPOSITORY), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


class HostLoad:
    """How much of the host's CPUs other processes used since this was made.

    Also the commit the module was built from: the tree may change during a run.
    """

    def __init__(self) -> None:
        self.commit = read_git("rev-parse", "HEAD") or "unknown"
        status = read_git("status", "--porcelain", "--", "kmod")
        self.dirty = self.commit == "unknown" or status != ""
        self._start = self._read()

    @staticmethod
    def _read() -> tuple[float, float]:
        """The time, and the CPU seconds of all but us and our children."""
        return time.monotonic(), read_busy_seconds() - sum(os.times()[:4])

    def read_others_percent(self) -> float:
        return others_percent(self._start, self._read())


def save(text: str, path: Path | None, name: str) -> Path:
    """Where asked, else in the cache, under this name."""
    path = path or cache_dir() / "results" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read_provenance(machine: Machine, load: HostLoad) -> Provenance:
    """Of the machine's last boot, once its guest has written a result."""
    model = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.M)
    text = (machine.output / "qemu.json").read_text()
    command = json.loads(text)
    # Instead of this machine's paths their names.
    places = {machine.output: "OUT", cache_dir(): "CACHE", REPOSITORY: "REPOSITORY"}
    for path, name in places.items():
        text = text.replace(str(path), name)
    qemu = subprocess.run([command[0], "--version"], capture_output=True, text=True)
    # Of paths the file is told, not the folder.
    words = [Path(one).name if one.startswith("/") else one for one in sys.argv[1:]]
    return Provenance(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        kernel=machine.root.kernel,
        kernel_package=machine.root.package,
        module_commit=load.commit,
        module_dirty=load.dirty,
        host_cpu=model[1] if model else "unknown",
        host_cpus=os.cpu_count() or 1,
        accelerator=accelerator(machine.root, machine.counted),
        qemu_version=qemu.stdout.splitlines()[0] if qemu.stdout else "unknown",
        qemu_command=json.loads(text),
        vcpus=machine.vcpus,
        memory_mb=machine.memory_mb,
        boot_id=json.loads((machine.output / "result.json").read_text())["boot_id"],
        command_line=["python3", "-m", "lab", *words],
        other_load_percent=load.read_others_percent(),
    )
