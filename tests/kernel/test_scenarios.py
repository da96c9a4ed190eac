# SPDX-License-Identifier: GPL-2.0-or-later
"""Every scenario on every kernel: what the guest said, as pytest's results."""

from __future__ import annotations

import pytest

from lab.testing import read_scenarios


def test_there_are_scenarios() -> None:
    assert read_scenarios(), "tests/kernel/scenarios/ holds no scenario"


def test_scenario(kernel, name, played) -> None:
    outcome = played(kernel).outcomes.get(name)
    if outcome is None:
        pytest.fail("lost: never reached, too many VMs were lost", pytrace=False)
    if outcome.outcome == "skipped":
        pytest.skip(outcome.message)
    if outcome.outcome != "passed":
        pytest.fail(f"{outcome.outcome}: {outcome.message}", pytrace=False)


def test_console_is_free_of_trouble(kernel, played) -> None:
    trouble = played(kernel).trouble
    if trouble:
        pytest.fail("\n".join(trouble), pytrace=False)
