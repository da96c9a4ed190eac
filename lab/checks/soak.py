# SPDX-License-Identifier: GPL-2.0-or-later
"""Mixed traffic for a long time in one boot, and its result."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from lab.cache import cache_dir
from lab.checks.testing import parse_outcomes, single
from lab.errors import FINE, LabError, NO
from lab.machines import vm
from lab.machines.matrix import Kernel
from lab.report.results import HostLoad, read_provenance
from lab.setup import say

SCENARIO = "soak.mixed_traffic_loses_nothing_at_the_ring"
EXTRA_SECONDS = 600.0  # to boot, to begin and to end

_COLUMNS = (
    ("lane", "name"),
    ("qdisc", "qdisc"),
    ("reader", "reader"),
    ("read", "read"),
    ("lost", "lost_at_ring"),
    ("stops", "stops"),
    ("stalls", "stalls"),
    ("longest stop, ms", "longest_stop_ms"),
    ("pauses", "pauses"),
    ("deaths", "deaths"),
    ("ping p50, ms", "ping_p50_ms"),
    ("p99", "ping_p99_ms"),
)


def format_lanes(lanes: list[dict]) -> str:
    """A table, one line for each device; numbers to the right."""
    rows = [[title for title, _ in _COLUMNS]]
    rows += [[str(lane[name]) for _, name in _COLUMNS] for lane in lanes]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_COLUMNS))]
    return "".join(
        "  ".join(
            cell.ljust(width) if place < 3 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in rows
    )


def format_memory(memory: list[dict]) -> str:
    """Before the module was loaded, under way, and after it was unloaded."""
    before, *between, after = memory
    first, last = between[0], between[-1]
    return (
        "slab, MB: {:.1f} before; {:.1f} at the start, {:.1f} at the end; {:.1f} after\n"
        "available, MB: {:.0f}; {:.0f}, {:.0f}; {:.0f}"
    ).format(
        *(m["slab_kb"] / 1024 for m in (before, first, last, after)),
        *(m["available_kb"] / 1024 for m in (before, first, last, after)),
    )


def soak(kernel: Kernel, minutes: float, path: Path | None) -> int:
    """Play it in one boot; 0 if nothing was lost and nothing is wrong."""
    asked = {"SLUICE_SOAK_SECONDS": 60 * minutes}
    with single(kernel, SCENARIO, asked) as (machine, job):
        say(f"kernel {machine.root.release}: mixed traffic for {minutes:g} minutes")
        load = HostLoad()
        deadline = 60 * minutes + EXTRA_SECONDS * kernel.patience
        result = vm.run_job(machine, job, deadline, say)
        played = json.loads((machine.output / "result.json").read_text())
        answer = machine.output / "soak.json"
        if not answer.exists():
            raise LabError(f"soak: no result ({result.reason}); see above")
        facts = json.loads(answer.read_text())
        provenance = read_provenance(machine, load)
    (outcome,) = parse_outcomes(played, None)
    path = path or cache_dir() / "results" / f"soak-{kernel.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    saved = {"provenance": asdict(provenance), **facts, "trouble": result.trouble}
    path.write_text(json.dumps(saved, separators=(",", ":")) + "\n")
    print(format_lanes(facts["lanes"]) + format_memory(facts["memory"]))
    print(f"soak: {outcome.outcome}: {'; '.join([outcome.message, *result.trouble])}")
    print(f"saved in {path}")
    return FINE if outcome.outcome == "passed" and not result.trouble else NO
