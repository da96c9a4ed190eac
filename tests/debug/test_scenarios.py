# SPDX-License-Identifier: GPL-2.0-or-later
"""Every scenario of tests/kernel on the kernels that watch themselves."""

from __future__ import annotations

from lab.checks import testing
from tests._outcomes import test_console_is_free_of_trouble, test_scenario  # noqa: F401

SUITE = testing.DEBUGGED
