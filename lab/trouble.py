# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds reports of kernel faults in a console or a log."""

from __future__ import annotations

import re

TROUBLE = re.compile(
    r"\bBUG: (?!KCSAN: data-race)|\bOops\b|\bWARNING: |Kernel panic"
    r"|general protection fault"
    r"|possible (recursive|circular) lock|inconsistent lock state"
    r"|suspicious RCU usage|INFO: task .* blocked|rcu.*detected stall"
    r"|unregister_netdevice: waiting|refcount_t:|KASAN:|UBSAN:"
    r"|ODEBUG: |non-static key|unreferenced object|lockdep has stopped"
)
# One side of a data race; a marked one would say so before its address.
PLAIN = re.compile(r"\b(read|write|read-write) to 0x")
OURS = re.compile(r"\[s(luice|plat)\]")


def _parse_races(lines: list[str]) -> list[str]:
    """The data races in which one side is a plain access of sluice.

    The driver and the rest of the kernel access a queue's state plainly: a marked access
    of sluice races with those as the driver's own does.
    """
    races, title = [], ""
    for line, frame in zip(lines, lines[1:]):
        if "BUG: KCSAN: data-race" in line:
            title = line
        elif title and PLAIN.search(line) and OURS.search(frame):
            races.append(title)
            title = ""
    return races


def parse_trouble(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if TROUBLE.search(line)] + _parse_races(lines)
