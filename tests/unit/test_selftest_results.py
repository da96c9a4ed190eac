# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel's test harness prints, as outcomes."""

from __future__ import annotations

from lab.guest.scenarios import find_scenarios
from tests.kernel.scenarios.selftests import parse_results

SAID = """\
TAP version 13
1..3
# Starting 3 tests from 2 test cases.
#  RUN           tun.delete_detach_close ...
#            OK  tun.delete_detach_close
ok 1 tun.delete_detach_close
not ok 2 tun.detach_close_delete
ok 3 tun_vnet.plain.send # SKIP needs geneve
# FAILED: 2 / 3 tests passed.
"""


def test_each_outcome_is_read() -> None:
    assert parse_results(SAID) == {
        "tun.delete_detach_close": "passed",
        "tun.detach_close_delete": "failed",
        "tun_vnet.plain.send": "skipped",
    }


def test_scenarios_exist() -> None:
    names = [one.name for one in find_scenarios("kernel")]
    assert sum(name.startswith("selftests.") for name in names) == 2
