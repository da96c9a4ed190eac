# SPDX-License-Identifier: GPL-2.0-or-later
"""make abuse and make soak: one scenario for a long time in one boot.

Abuse is random sequences of what userspace does to a tap, reproducible by their seed;
soak is mixed traffic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from lab.cache import cache_dir
from lab.checks.testing import Outcome, machine_for, play_on
from lab.failure import FINE, NO, LabError, UsageError
from lab.machines.matrix import Kernel
from lab.report.results import HostLoad, read_provenance
from lab.setup import say

ABUSE = "abuse.random_sequences_leave_a_device_that_flows"
SEQUENCE_SECONDS = 20.0  # far more than one takes
SOAK = "soak.mixed_traffic_loses_nothing_but_in_stalls"

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


def _play(
    kernel: Kernel, scenario: str, asked: Mapping[str, object], seconds: float
) -> tuple[Outcome, list[str], dict, dict]:
    """Its outcome, the kernel's trouble, its answer in /out/MODULE.json, provenance.

    asked: its environment; seconds: at most, besides the start and the end.
    """
    with machine_for(kernel) as machine:
        told = ", ".join(f"{name}={value}" for name, value in asked.items())
        say(f"kernel {machine.root.release}: {scenario}, {told}")
        load = HostLoad()
        environment = {name: str(value) for name, value in asked.items()}
        (outcome,), trouble = play_on(
            *(machine, kernel, [scenario], say), seconds=seconds, environment=environment
        )
        path = machine.output / f"{scenario.partition('.')[0]}.json"
        answer = json.loads(path.read_text()) if path.exists() else {}
        return outcome, trouble, answer, asdict(read_provenance(machine, load))


def _write(path: Path, result: list | dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, separators=(",", ":")) + "\n")


def format_seconds(seconds: dict[str, float]) -> str:
    """Where the time went."""
    slowest = sorted(seconds, key=lambda name: seconds[name], reverse=True)[:5]
    told = ", ".join(f"{name} {seconds[name]:.0f}" for name in slowest)
    total = sum(seconds.values())
    return f"abuse: {total:.0f} s: {told}\n" if seconds else ""


def format_outcome(message: str, played: dict) -> str:
    done, refused = played.get("done", {}), played.get("refused", {})
    counts = ", ".join(
        f"{name} {done.get(name, 0)}"
        + (f" ({refused[name]} refused)" if name in refused else "")
        for name in sorted({*done, *refused})
    )
    said = f"abuse: {played.get('sequences', 0)} sequences: {counts}\n"
    said += format_seconds(played.get("seconds", {}))
    for name in played.get("lacks", ()):
        said += f"abuse: {name}: not offered by this kernel\n"
    if message:
        return said + f"abuse: seed {played.get('seed')}: {message}"
    return said + f"abuse: none failed; memory taken grew by {played.get('grown_kb')} kB"


def read_boots(path: Path) -> list[dict]:
    """What earlier boots added to this file; none if there is no file yet."""
    try:
        boots = json.loads(path.read_text() or "[]") if path.exists() else []
        if all({"played", "message"} <= boot.keys() for boot in boots):
            return boots
    except (OSError, ValueError, AttributeError):
        pass
    raise UsageError(f"{path}: not what lab abuse writes; name another file")


def format_sum(boots: list[dict]) -> str:
    """All boots of a file together."""
    sequences = sum(boot["played"].get("sequences", 0) for boot in boots)
    failed = sum(bool(boot["message"]) for boot in boots)
    return f"abuse: {sequences} sequences in all {len(boots)} boots, {failed} failed"


def abuse(kernel: Kernel, seed: int, sequences: int, path: Path | None) -> int:
    """Play so many sequences in one boot; 0 if none failed.

    path: a file to which the result and its provenance are appended.
    """
    boots = read_boots(path) if path else []
    asked = {"SLUICE_ABUSE_SEED": seed, "SLUICE_ABUSE_SEQUENCES": sequences}
    outcome, trouble, played, provenance = _play(
        kernel, ABUSE, asked, SEQUENCE_SECONDS * sequences
    )
    failed = [] if outcome.outcome == "passed" else [outcome.message]
    message = "; ".join([*failed, *trouble])
    print(format_outcome(message, played))
    if path:
        boots.append({"provenance": provenance, "played": played, "message": message})
        _write(path, boots)
        print(format_sum(boots))
    return NO if message else FINE


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
    outcome, trouble, facts, provenance = _play(kernel, SOAK, asked, 60 * minutes)
    said = "; ".join([outcome.message, *trouble])
    if not facts:
        raise LabError(f"soak: no result ({said}); see above")
    path = path or cache_dir() / "results" / f"soak-{kernel.name}.json"
    _write(path, {"provenance": provenance, **facts, "trouble": trouble})
    print(format_lanes(facts["lanes"]) + format_memory(facts["memory"]))
    print(f"soak: {outcome.outcome}: {said}")
    print(f"saved in {path}")
    return FINE if outcome.outcome == "passed" and not trouble else NO
