# SPDX-License-Identifier: GPL-2.0-or-later
"""The units of the packages, under a real systemd and udevd."""

from __future__ import annotations

from lab.checks import testing
from tests._outcomes import assert_no_trouble, assert_passed

SUITE = testing.SYSTEMD


def test_scenario(kernel, name, played) -> None:
    assert_passed(played(kernel), name)


def test_console_is_free_of_trouble(kernel, played) -> None:
    assert_no_trouble(played(kernel))
