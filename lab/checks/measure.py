# SPDX-License-Identifier: GPL-2.0-or-later
"""The host's side of a bench: one boot, its progress, its numbers."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from lab.checks import series
from lab.failure import FINE, NO, LabError, UsageError
from lab.machines import build, vm
from lab.machines.matrix import Kernel
from lab.machines.roots import ensure_root
from lab.report.results import HostLoad, Run, format_run, read_provenance, run_of, save
from lab.report.tables import all_findings, format_report
from lab.row import Row
from lab.setup import say
from lab.variants import parse_variant

BOOT_SECONDS = 60.0
# A VM that counts instructions, on a busy host.
COUNTED_SLOWER = 10
# The fields of the plan that the guest needs.
JOB_FIELDS = ("rounds", "seconds", "counted", "minutes", "series", "slots")


@dataclass(frozen=True)
class Plan:
    kernel: Kernel
    rows: list[Row]  # as they are without patched drivers
    rounds: int
    seconds: float
    packages: tuple[str, ...] = ()  # the root has them, too
    counted: bool = False  # instructions, not time
    minutes: float = 0.0  # at most, of further rounds until the ratios are sure
    series: bool = False  # its rows are with the patched drivers, too
    slots: bool = False  # and with those of the first patches
    vcpus: int = 0  # as many as the kernel's machine has

    @property
    def drivers(self) -> set[str]:
        """The patched ones that its variants need."""
        return {parse_variant(name).drivers for name in self.variants} - {""}

    @property
    def variants(self) -> list[str]:
        """Of each row."""
        rows = [row.with_patched(self.series, self.slots) for row in self.rows]
        return [name for row in rows for name in row.variants]

    @property
    def deadline(self) -> float:
        """Seconds for the whole boot, if every sample is slow."""
        round_seconds = len(self.variants) * (self.seconds + 30)
        slower = COUNTED_SLOWER if self.counted else 1
        rounds = self.rounds + (1 if self.minutes else 0)
        return (BOOT_SECONDS + rounds * round_seconds) * slower + 60 * self.minutes


def choose_rows(patterns: Sequence[str], known: list[Row]) -> list[Row]:
    """The rows that match a pattern; all if there is none."""
    chosen: dict[str, Row] = {}
    for pattern in patterns or "*":
        matching = {r.name: r for r in known if fnmatchcase(r.name, pattern)}
        if not matching:
            names = ", ".join(row.name for row in known)
            raise UsageError(f"row {pattern}: unknown; choose from {names}")
        chosen |= matching
    return list(chosen.values())


def _save_measured(
    machine: vm.Machine, load: HostLoad, trouble: list[str], path: Path | None
) -> tuple[Run, Path] | None:
    """What the guest has written until now; None if that is nothing."""
    written = machine.output / "result.json"
    if not written.exists():
        return None
    measured = json.loads(written.read_text())
    run = run_of(read_provenance(machine, load), measured, trouble)
    stamp = run.provenance.date.replace(":", "")
    return run, save(format_run(run), path, f"{run.provenance.kernel}-{stamp}")


def measure(plan: Plan, path: Path | None) -> tuple[Run, Path]:
    """Boot the kernel, measure, and save the run: where asked, else in the cache.

    Raises what vm.run_job() raises. What was measured until then is saved all the
    same, also if the user ends it.
    """
    if plan.drivers:
        series.require_source(plan.kernel)
    root = ensure_root(plan.kernel, plan.packages)
    vcpus = plan.vcpus or vm.default_vcpus(plan.kernel)
    with tempfile.TemporaryDirectory(prefix="sluice-lab-") as name:
        output = Path(name)
        job: vm.Job = {"kind": "bench", "native": root.native}
        job |= {name: getattr(plan, name) for name in JOB_FIELDS}
        job["rows"] = [row.name for row in plan.rows]
        build.stage(root, output)
        if plan.drivers:
            series.stage_newest_drivers(root, output, plan.drivers)
        machine = vm.Machine(root, output, vcpus, counted=plan.counted)
        say(f"kernel {root.release}: booting under {vm.accelerator(root, plan.counted)}")
        load = HostLoad()
        try:
            result = vm.run_job(machine, job, plan.deadline, say)
        except BaseException as error:
            if part := _save_measured(machine, load, ["cut short"], path):
                run, path = part
                done = sum(m.status == "measured" for m in run.measurements)
                hint = f"{done} of {run.planned} samples are saved in {path}"
                hint += f"; to see them: python3 -m lab report {path}"
                if isinstance(error, KeyboardInterrupt):
                    raise type(error)(hint) from None
                say(f"cut short: {hint}")
            raise
        whole = _save_measured(machine, load, result.trouble, path)
        if whole is None:
            raise LabError(f"kernel {root.kernel}: nothing measured: {result.reason}")
        return whole


def writable(name: str) -> Path:
    """The file, or UsageError: before minutes of measuring instead of after."""
    path = Path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error})") from error
    return path


def read_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def show(run: Run) -> None:
    print(format_report(run, read_colour()))


def bench_status(run: Run, demo: bool = False) -> int:
    """0 only when complete, sound, and every figure is reached; in a demo, or cannot be
    decided, as a rate on a host that is too slow."""
    fine = all(one.reached or (demo and not one.decided) for one in all_findings(run))
    return FINE if run.complete and not run.trouble and fine else NO
