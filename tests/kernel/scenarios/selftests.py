# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own tests of tun and tap come out the same with sluice loaded.

They are built from the kernel's source; see tests/kernel/_selftests.py.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from lab.guest.scenarios import Env, scenario

FOLDER = Path("/out/selftests")
# "ok 3 tun.detach_close_delete", "not ok 4 tap.x", "ok 5 tap.y # SKIP no rights"
RESULT = re.compile(r"^(not ok|ok) \d+ (\S+)( # SKIP)?", re.MULTILINE)


def parse_results(text: str) -> dict[str, str]:
    """Each test's outcome, from what the kernel's test harness prints."""
    return {
        name: "skipped" if skipped else "failed" if verdict != "ok" else "passed"
        for verdict, name, skipped in RESULT.findall(text)
    }


def _play(name: str) -> dict[str, str]:
    """One program's tests, in a network namespace of their own."""
    done = subprocess.run(
        ["unshare", "--net", str(FOLDER / name)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    results = parse_results(done.stdout)
    assert "passed" in results.values(), done.stdout[-500:]
    return results


def _comes_out_the_same(env: Env, name: str) -> str:
    if not FOLDER.exists():
        env.skip("the kernel's selftests were not built; make test-all has them")
    stock = _play(name)
    env.load()
    sluice = _play(name)
    differ = {
        test: (stock.get(test), sluice.get(test))
        for test in {*stock, *sluice}
        if stock.get(test) != sluice.get(test)
    }
    assert not differ, f"stock and sluice: {differ}"
    counts = Counter(stock.values())
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items())


@scenario(deadline=1200)
def tun_tests_have_the_same_results(env: Env) -> str:
    return _comes_out_the_same(env, "tun")


@scenario(deadline=600)
def tap_tests_have_the_same_results(env: Env) -> str:
    return _comes_out_the_same(env, "tap")
