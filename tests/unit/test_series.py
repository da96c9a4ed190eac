# SPDX-License-Identifier: GPL-2.0-or-later
"""make series, as far as it needs no kernel source: what its patches are made of."""

from __future__ import annotations

import pytest

from lab.checks import driver, series_boot


@pytest.mark.parametrize("patch", range(2, driver.LAST + 1))
def test_no_patch_has_a_line_that_only_says_where_others_begin(patch: int) -> None:
    files = driver.driver_files(patch)
    assert files and not any("#if PATCH" in text for text in files.values())


def test_the_selftest_that_is_played_is_the_one_that_is_sent() -> None:
    assert series_boot.selftest().is_file()
