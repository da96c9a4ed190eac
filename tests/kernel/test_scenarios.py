# SPDX-License-Identifier: GPL-2.0-or-later
"""Every scenario on every kernel."""

from __future__ import annotations

from lab.checks import testing
from tests._outcomes import test_console_is_free_of_trouble, test_scenario  # noqa: F401

SUITE = testing.KERNEL
