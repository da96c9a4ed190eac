# SPDX-License-Identifier: GPL-2.0-or-later
"""Random sequences of what userspace does to a tap, reproducible by their seed."""

from __future__ import annotations

import json

from lab.errors import FINE, NO
from lab.matrix import Kernel
from lab.setup import say
from lab.testing import boot, single

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
    return said + f"abuse: none failed; slabs grew by {played.get('grown_kb')} kB"


def abuse(kernel: Kernel, seed: int, sequences: int) -> int:
    """Play so many sequences in one boot; 0 if none failed."""
    asked = {"SLUICE_ABUSE_SEED": seed, "SLUICE_ABUSE_SEQUENCES": sequences}
    with single(kernel, SCENARIO, asked) as (machine, job):
        say(f"kernel {machine.root.release}: {sequences} sequences from seed {seed}")
        deadline = (BOOT_SECONDS + SEQUENCE_SECONDS * sequences) * kernel.patience
        outcomes, trouble = boot(machine, job, deadline, say)
        path = machine.output / "abuse.json"
        played = json.loads(path.read_text()) if path.exists() else {}
    failed = [o.message for o in outcomes if o.outcome != "passed"]
    message = "; ".join([*failed, *trouble])
    print(format_outcome(message, played))
    return NO if message else FINE
