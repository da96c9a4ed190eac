# SPDX-License-Identifier: GPL-2.0-or-later
"""Random sequences of what userspace does to a tap, reproducible by their seed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from lab.checks.testing import boot, single
from lab.errors import FINE, NO, UsageError
from lab.machines.matrix import Kernel
from lab.report.results import HostLoad, read_provenance
from lab.setup import say

SCENARIO = "abuse.random_sequences_leave_a_device_that_flows"
BOOT_SECONDS = 120.0
SEQUENCE_SECONDS = 20.0  # far more than one takes


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
        said += f"abuse: {name}: not offered by this kernel; a debug kernel does\n"
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
    with single(kernel, SCENARIO, asked) as (machine, job):
        say(f"kernel {machine.root.release}: {sequences} sequences from seed {seed}")
        load = HostLoad()
        deadline = (BOOT_SECONDS + SEQUENCE_SECONDS * sequences) * kernel.patience
        outcomes, trouble = boot(machine, job, deadline, say)
        answer = machine.output / "abuse.json"
        played = json.loads(answer.read_text()) if answer.exists() else {}
        provenance = asdict(read_provenance(machine, load)) if path else None
    failed = [o.message for o in outcomes if o.outcome != "passed"]
    message = "; ".join([*failed, *trouble])
    print(format_outcome(message, played))
    if path:
        boots.append({"provenance": provenance, "played": played, "message": message})
        path.write_text(json.dumps(boots, separators=(",", ":")) + "\n")
        print(format_sum(boots))
    return NO if message else FINE
