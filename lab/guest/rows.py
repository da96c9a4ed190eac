# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: every row under every variant, round after round, in one boot."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from lab import sure, workloads
from lab.guest import host
from lab.guest.child import Ending, run_child
from lab.guest.env import GuestEnv
from lab.processes import running
from lab.row import Row

# What a sample may take beyond the seconds it measures. Where instructions are
# counted the clock jumps while all processes wait for the host's disk.
GRACE_SECONDS = 120.0
GRACE_SECONDS_COUNTED = 3600.0

# Times a sample is taken at most, if other processes disturb it.
DISTURBED_SAMPLES = 3

Report = Callable[[dict[str, Any]], None]
Say = Callable[[str], None]


def measurement(place: tuple[int, str, str], ending: Ending) -> dict[str, Any]:
    number, row, variant = place
    raised = {None: "measured", "Skipped": "skipped"}.get(ending.error, "failed")
    return {
        "round": number,
        "row": row,
        "variant": variant,
        "status": "lost" if ending.lost else raised,
        "reason": ending.message,
        "sample": ending.answer,
    }


def format_progress(line: dict[str, Any], done: int, total: int) -> str:
    where = f"[{done:>{len(str(total))}}/{total}] {line['row']}, {line['variant']}"
    sample = line["sample"]
    if sample is None:
        return f"{where}: {line['status']}: {line['reason']}"
    lost = sample["lost_at_ring"]
    return f"{where}: {sample['value']:,.0f}, {lost:,} lost at the ring"


@contextlib.contextmanager
def background_ping() -> Iterator[None]:
    """Keeps the kernel's timestamps on: TCG guests can crash when they are
    enabled by live patching of code that traffic is running through."""
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with running(["ping", "-q", "-i", "1", "127.0.0.1"], **nowhere):
        yield


def unload() -> None:
    """Remove the module that a sample which was cut short left behind."""
    if os.path.exists("/sys/module/sluice"):
        subprocess.run(["rmmod", "sluice"], check=False)


class Bench:
    def __init__(self, job: dict[str, Any], report: Report, say: Say) -> None:
        every = workloads.WORKLOADS.values()
        known = [one.row for one in every if one.row.name in job["rows"]]
        patched = job.get("series", False), job.get("slots", False)
        known = [row.with_patched(*patched) for row in known]
        self.rows = {row.name: row for row in known}
        self._job, self._report, self._say = job, report, say
        self._env, self._call_us = GuestEnv(), host.system_call_us()
        self.lines: list[dict[str, Any]] = []

    def take_round(self, rows: Sequence[Row], number: int) -> None:
        """The variants interleaved; with each round another one is the first."""
        plan = []
        for row in rows:
            turn = number % len(row.variants)
            for variant in row.variants[turn:] + row.variants[:turn]:
                plan.append((number, row.name, variant))
        of_a_round = sum(len(row.variants) for row in self.rows.values())
        planned = max(len(self.lines) + len(plan), self._job["rounds"] * of_a_round)
        for place in plan:
            self.lines.append(self._take(place))
            shown = [asdict(row) for row in self.rows.values()]
            self._report({"rows": shown, "measurements": self.lines, "planned": planned})
            self._say(format_progress(self.lines[-1], len(self.lines), planned))

    def _take(self, place: tuple[int, str, str]) -> dict[str, Any]:
        """One sample, taken again while others disturb it."""
        for _ in range(DISTURBED_SAMPLES):
            if not self._job.get("native"):
                return self._take_once(place)
            self._env.use_drivers(place[2])
            self._env.load_kernel_reader()  # it tells what a timer takes
            before = host.read_load()
            line = self._take_once(place)
            others = host.others_percent(before, host.read_load())
            if line["sample"] is not None:
                line["sample"]["extra"].update(
                    others_percent=others,
                    system_call_us=self._call_us,
                    timer_us=host.timer_us(),
                )
            if others <= host.QUIET_PERCENT:
                break
            self._say(f"{place[1]}, {place[2]}: others used {others:.0f} % of the host")
        return line

    def _take_once(self, place: tuple[int, str, str]) -> dict[str, Any]:
        _, name, variant = place
        row, seconds = self.rows[name], self._job["seconds"]
        grace = GRACE_SECONDS_COUNTED if self._job["counted"] else GRACE_SECONDS

        def sample() -> dict[str, Any]:
            return workloads.measure(row, variant, seconds, self._env).to_json()

        ending = run_child(sample, seconds + grace)
        unload()
        return measurement(place, ending)

    def is_sure(self, row: Row) -> bool:
        """Whether its ratios to stock are known to within sure.WITHIN."""
        values: dict[str, dict[int, float]] = {}
        for line in self.lines:
            if line["row"] == row.name and line["sample"] is not None:
                own = values.setdefault(line["variant"], {})
                own[line["round"]] = line["sample"]["value"]
        stock = values.pop("stock", {})
        intervals = (sure.ratio_interval(own, stock) for own in values.values())
        return all(map(sure.is_within, intervals))

    def take_until_sure(self, minutes: float) -> None:
        """Further rounds of the rows that need them."""
        end, number = time.monotonic() + 60 * minutes, self._job["rounds"]
        rows = [row for row in self.rows.values() if not self.is_sure(row)]
        while rows and time.monotonic() < end:
            self.take_round(rows, number)
            number += 1
            rows = [row for row in rows if not self.is_sure(row)]
        if rows:
            names = ", ".join(row.name for row in rows)
            self._say(f"not known to within {100 * sure.WITHIN:.0f} %: {names}")


def run_bench(job: dict[str, Any], report: Report, say: Say) -> tuple[int, str]:
    bench = Bench(job, report, say)
    # Until the kernel's random numbers are ready, a packet of 5.10's UDP sockets costs
    # some 1100 instructions more, whatever the variant.
    os.getrandom(1)
    with background_ping():
        for number in range(job["rounds"]):
            bench.take_round(list(bench.rows.values()), number)
        if job.get("minutes"):
            bench.take_until_sure(job["minutes"])
    missing = sum(line["status"] in ("failed", "lost") for line in bench.lines)
    return (1, f"{missing} samples missing") if missing else (0, "all measured")
