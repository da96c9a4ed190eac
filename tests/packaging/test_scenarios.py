# SPDX-License-Identifier: GPL-2.0-or-later
"""The packages, and an installation from the tree, on Debian 11 to 13."""

from __future__ import annotations

from lab.checks import testing
from tests._outcomes import test_console_is_free_of_trouble, test_scenario  # noqa: F401

SUITE = testing.PACKAGING
