# SPDX-License-Identifier: GPL-2.0-or-later
"""What the guest said of its scenarios, as pytest's results.

The tests are those of each tests/SUITE/test_scenarios.py, which names its suite.
"""

from __future__ import annotations

import pytest

from lab.checks.testing import Played


def assert_passed(played: Played, name: str) -> None:
    outcome = played.outcomes.get(name)
    if outcome is None:
        pytest.fail("lost: never reached, too many VMs were lost", pytrace=False)
    if outcome.outcome == "skipped":
        pytest.skip(outcome.message)
    if outcome.outcome != "passed":
        pytest.fail(f"{outcome.outcome}: {outcome.message}", pytrace=False)


def test_scenario(kernel, name, played) -> None:
    assert_passed(played(kernel), name)


def test_console_is_free_of_trouble(kernel, played) -> None:
    if trouble := played(kernel).trouble:
        pytest.fail("\n".join(trouble), pytrace=False)
