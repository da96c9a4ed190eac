# SPDX-License-Identifier: GPL-2.0-or-later
"""make abuse and make soak: one scenario for a long time in one boot.

Abuse is random sequences of what userspace does to a tap, reproducible by their seed;
soak is mixed traffic.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.checks.testing import machine_for, play_on
from lab.failure import FINE, NO, LabError
from lab.machines.matrix import Kernel
from lab.report.results import HostLoad, read_provenance, save
from lab.setup import say

ABUSE = "abuse.random_sequences_leave_a_device_that_flows"
SEQUENCE_SECONDS = 20.0  # far more than one takes
SOAK = "soak.mixed_traffic_loses_nothing_but_in_stalls"


def _play(
    kernel: Kernel,
    scenario: str,
    settings: Mapping[str, float],
    seconds: float,
    format_answer: Callable[[dict[str, Any]], str],
    path: Path | None,
) -> int:
    """Play it, save its answer with its provenance, and print it; 0 if it passed.

    settings: its environment; seconds: at most, besides the start and the end. The
    answer is what the scenario wrote to /out/MODULE.json; /out/MODULE.where says where
    it was when something took long.
    """
    name = scenario.partition(".")[0]
    with machine_for(kernel) as machine:
        environment = {name: str(value) for name, value in settings.items()}
        shown = ", ".join(f"{name}={value}" for name, value in environment.items())
        say(f"kernel {machine.root.release}: {scenario}, {shown}")
        load = HostLoad()
        (outcome,), trouble = play_on(
            machine, kernel, [scenario], say, seconds=seconds, environment=environment
        )
        where = machine.output / f"{name}.where"
        if where.exists() and where.stat().st_size:
            say(f"{name}: this took long:\n{where.read_text().rstrip()}")
        message = "; ".join([outcome.message, *trouble])
        written = machine.output / f"{name}.json"
        if not written.exists():
            raise LabError(f"{name}: no result ({message}); see above")
        answer = json.loads(written.read_text())
        provenance = asdict(read_provenance(machine, load))
    whole = {"provenance": provenance, **answer, "message": message}
    text = json.dumps(whole, separators=(",", ":")) + "\n"
    path = save(text, path, f"{name}-{kernel.name}")
    print(
        f"{format_answer(answer)}\n{name}: {outcome.outcome}: {message}\nsaved in {path}"
    )
    return FINE if outcome.outcome == "passed" and not trouble else NO


def format_sequences(answer: dict[str, Any]) -> str:
    done, refused = answer["done"], answer["refused"]
    counts = ", ".join(
        f"{name} {done.get(name, 0)}"
        + (f" ({refused[name]} refused)" if name in refused else "")
        for name in sorted({*done, *refused})
    )
    lines = [f"{answer['sequences']} sequences: {counts}"]
    seconds = answer["seconds"]
    slowest = sorted(seconds, key=lambda name: seconds[name], reverse=True)[:5]
    parts = ", ".join(f"{name} {seconds[name]:.0f}" for name in slowest)
    lines.append(f"{sum(seconds.values()):.0f} s: {parts}")
    lines += [f"{name}: not offered by this kernel" for name in answer["lacks"]]
    lines.append(f"last seed {answer['seed']}, which repeats it if it failed")
    if "grown_kb" in answer:
        lines.append(f"memory taken grew by {answer['grown_kb']} kB")
    return "\n".join(f"abuse: {line}" for line in lines)


def abuse(kernel: Kernel, seed: int, sequences: int, path: Path | None) -> int:
    settings = {"SLUICE_ABUSE_SEED": seed, "SLUICE_ABUSE_SEQUENCES": sequences}
    seconds = SEQUENCE_SECONDS * sequences
    return _play(kernel, ABUSE, settings, seconds, format_sequences, path)


def format_soak(answer: dict[str, Any]) -> str:
    """What each lane carried, and the memory with the module and without."""
    lanes, memory = answer["lanes"], answer["memory"]
    lines = [
        f"{fact:<15}" + "".join(f"{lane[fact]!s:>11}" for lane in lanes)
        for fact in lanes[0]
    ]
    moments = (memory[0], memory[1], memory[-2], memory[-1])
    values = ", ".join(
        f"{m['slab_kb'] / 1024:.1f} ({m['available_kb'] / 1024:.0f})" for m in moments
    )
    what = "slab (available), MB, before, at the start, at the end, after"
    return "\n".join([*lines, f"{what}: {values}"])


def soak(kernel: Kernel, minutes: float, path: Path | None) -> int:
    settings = {"SLUICE_SOAK_SECONDS": 60 * minutes}
    return _play(kernel, SOAK, settings, 60 * minutes, format_soak, path)
