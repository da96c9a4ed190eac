# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own words for "I am broken", in a console or a log."""

from __future__ import annotations

import re
from typing import List

TROUBLE = re.compile(
    r"\bBUG: (?!KCSAN: )|\bOops\b|\bWARNING: |Kernel panic|general protection fault"
    r"|possible (recursive|circular) lock|inconsistent lock state"
    r"|suspicious RCU usage|INFO: task .* blocked|rcu.*detected stall"
    r"|unregister_netdevice: waiting|refcount_t:|KASAN:|UBSAN:"
    r"|ODEBUG: |non-static key|unreferenced object|lockdep has stopped"
    r"|KCSAN: .*\[s(luice|plat)\]"  # of the races, those with our code in them
)


def parse_trouble(text: str) -> List[str]:
    return [line.strip() for line in text.splitlines() if TROUBLE.search(line)]
