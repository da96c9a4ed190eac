# SPDX-License-Identifier: GPL-2.0-or-later
"""The files that several patches of the series change, as they are after one of them.

The policy is that of the module, kmod/flow.c and flow.h, under the driver's names. The
others, series/driver/, say in lines '#if PATCH >= 3' what belongs to which patch.
"""

from __future__ import annotations

import re

from lab.failure import LabError
from lab.machines.build import KMOD
from lab.machines.vm import REPOSITORY

DRIVER = REPOSITORY / "series" / "driver"
LAST = 9  # patch of the series
SELFTEST = "tools/testing/selftests/net/tun_backpressure.py"
# Path in the kernel -> where its text is, and the patch that brings it.
_FILES = {
    "drivers/net/tun_txq.c": (DRIVER / "tun_txq.c", 2),
    "drivers/net/tun_txq.h": (DRIVER / "tun_txq.h", 2),
    "drivers/net/tun_tx_flow.c": (KMOD / "flow.c", 3),
    "drivers/net/tun_tx_flow.h": (KMOD / "flow.h", 3),
    "drivers/net/tun_tx_flow_kunit.c": (DRIVER / "tun_tx_flow_kunit.c", 3),
    SELFTEST: (DRIVER / "tun_backpressure.py", 2),
}
_CONDITION = re.compile(r"#if PATCH (>=|<) (\d+)$")
_FUNCTION = re.compile(
    r"^(?!static\b)[a-z][^;{}#/]*?\b(tun_tx_\w+)\([^;{}]*\)\n\{\n.*?^\}\n",
    re.MULTILINE | re.DOTALL,
)
# No name becomes longer or shorter, so that the layout stays.
_NAMES = (
    (r"sluice", "tun_tx"),
    (r"SLUICE", "TUN_TX"),
    (r"\bflow\.([ch])\b", r"tun_tx_flow.\1"),
    (r"\bqueue\.c\b", "tun_txq.c"),
)


def at_patch(text: str, patch: int) -> str:
    """What is left of the lines between '#if PATCH ...', '#else' and '#endif'."""
    kept, shown = [], [True]
    for line in text.splitlines(keepends=True):
        word = line.strip()
        if found := _CONDITION.match(word):
            shown.append((patch >= int(found[2])) == (found[1] == ">="))
        elif word == "#else" and len(shown) > 1:
            shown[-1] = not shown[-1]
        elif word == "#endif" and len(shown) > 1:
            shown.pop()
        elif all(shown):
            kept.append(line)
    if len(shown) > 1:
        raise LabError("series/driver: an '#if PATCH' without '#endif'; add it")
    return "".join(kept)


def under_driver_names(policy: str) -> str:
    """The module's policy as the driver has it, its functions within reach of tests."""
    for pattern, name in _NAMES:
        policy = re.sub(pattern, name, policy)
    return _FUNCTION.sub(r"\g<0>EXPORT_SYMBOL_IF_KUNIT(\1);\n", policy).replace(
        "#include <linux/kernel.h>\n",
        "#include <kunit/visibility.h>\n#include <linux/kernel.h>\n",
    )


def driver_files(patch: int = LAST) -> dict[str, str]:
    """Path in the kernel -> text, of those that exist after this patch."""
    return {
        path: under_driver_names(at_patch(source.read_text(), patch))
        for path, (source, first) in _FILES.items()
        if patch >= first
    }
