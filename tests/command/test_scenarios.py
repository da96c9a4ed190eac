# SPDX-License-Identifier: GPL-2.0-or-later
"""The operator's command, in the guest."""

from __future__ import annotations

from lab.checks import testing
from tests._outcomes import test_console_is_free_of_trouble, test_scenario  # noqa: F401

SUITE = testing.COMMAND
