# SPDX-License-Identifier: GPL-2.0-or-later
"""What the guest said of its scenarios, as pytest's results."""

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


def assert_no_trouble(played: Played) -> None:
    if played.trouble:
        pytest.fail("\n".join(played.trouble), pytrace=False)
