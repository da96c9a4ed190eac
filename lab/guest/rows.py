# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: every row under every variant, round after round, in one boot."""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from lab import workloads
from lab.guest.child import Ending, run_child
from lab.guest.env import GuestEnv
from lab.row import Row, disagree

# What a sample may take beyond the seconds it measures. Where instructions are
# counted the clock leaps while all wait for the host's disk.
GRACE_SECONDS = 60.0
GRACE_SECONDS_COUNTED = 3600.0

Report = Callable[[Dict[str, Any]], None]
Say = Callable[[str], None]


def schedule(
    rows: Sequence[Row], rounds: int, first: int = 0
) -> List[Tuple[int, str, str]]:
    """(round, row, variant): interleaved; the first variant rotates."""
    plan = []
    for number in range(first, first + rounds):
        for row in rows:
            turn = number % len(row.variants)
            variants = row.variants[turn:] + row.variants[:turn]
            plan += [(number, row.name, variant) for variant in variants]
    return plan


def choose_rows(known: List[Row], names: Optional[List[str]]) -> List[Row]:
    """The rows with these names; None: all of them."""
    if names is None:
        return known
    by_name = {row.name: row for row in known}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ValueError(
            f"row {unknown[0]}: unknown; choose from {', '.join(by_name)}"
        )
    return [row for row in known if row.name in names]


def measurement(place: Tuple[int, str, str], ending: Ending) -> Dict[str, Any]:
    """One line of the result from how the child ended."""
    number, row, variant = place
    status = "measured"
    if ending.lost:
        status = "lost"
    elif ending.error is not None:
        status = "skipped" if ending.error == "Skipped" else "failed"
    return {
        "round": number,
        "row": row,
        "variant": variant,
        "status": status,
        "reason": ending.message,
        "sample": ending.answer,
    }


def format_progress(line: Dict[str, Any], done: int, total: int) -> str:
    where = f"[{done:>{len(str(total))}}/{total}] {line['row']}, {line['variant']}"
    sample = line["sample"]
    if sample is None:
        return f"{where}: {line['status']}: {line['reason']}"
    lost = sample["lost_at_ring"]
    return f"{where}: {sample['value']:,.0f}, {lost:,} lost at the ring"


def undecided_rows(rows: List[Row], lines: List[Dict[str, Any]]) -> List[Row]:
    """Those with a variant whose samples disagree."""
    values: Dict[Tuple[str, str], List[float]] = {}
    for line in lines:
        if line["sample"] is not None:
            place = (line["row"], line["variant"])
            values.setdefault(place, []).append(line["sample"]["value"])
    names = {row for (row, _), found in values.items() if disagree(found)}
    return [row for row in rows if row.name in names]


@contextlib.contextmanager
def background_ping() -> Iterator[None]:
    """Keeps the kernel's timestamps on: TCG guests can crash when they are
    enabled by live patching of code that traffic is running through."""
    ping = subprocess.Popen(
        ["ping", "-q", "-i", "1", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        ping.kill()
        ping.wait()


def await_randomness() -> None:
    """Until the kernel's random numbers are ready, a packet of 5.10's UDP sockets costs
    some 1100 instructions more, whatever the variant."""
    os.getrandom(1)


def unload() -> None:
    """The module of a sample that was cut short must not serve the next."""
    if os.path.exists("/sys/module/sluice"):
        subprocess.run(["rmmod", "sluice"], check=False)


def run_bench(job: Dict[str, Any], report: Report, say: Say) -> Tuple[int, str]:
    known = workloads.all_rows()
    rows = {row.name: row for row in choose_rows(known, job["rows"])}
    module = Path(job["module"]) if job["module"] else None
    env = GuestEnv(Path(job["helpers"]), module)
    lines: List[Dict[str, Any]] = []
    plan = schedule(list(rows.values()), job["rounds"])
    seconds = job["seconds"]
    grace = GRACE_SECONDS_COUNTED if job["counted"] else GRACE_SECONDS

    def sample(place: Tuple[int, str, str]) -> Callable[[], Dict[str, Any]]:
        _, row, variant = place
        return lambda: workloads.measure(rows[row], variant, seconds, env).to_json()

    def play(places: List[Tuple[int, str, str]]) -> None:
        for place in places:
            setup = rows[place[1]].setup_seconds
            ending = run_child(sample(place), setup + seconds + grace)
            unload()
            lines.append(measurement(place, ending))
            told = [asdict(row) for row in rows.values()]
            report({"rows": told, "measurements": lines, "planned": len(plan)})
            say(format_progress(lines[-1], len(lines), len(plan)))

    await_randomness()
    with background_ping():
        play(plan)
        for number in range(job["retries"]):
            again = undecided_rows(list(rows.values()), lines)
            further = schedule(again, 1, job["rounds"] + number)
            if again:
                say(f"once more, for their samples disagree: {join_names(again)}")
            plan += further
            play(further)
    missing = sum(line["status"] in ("failed", "lost") for line in lines)
    return (1, f"{missing} samples missing") if missing else (0, "all measured")


def join_names(rows: List[Row]) -> str:
    return ", ".join(row.name for row in rows)
