# SPDX-License-Identifier: GPL-2.0-or-later
"""The module builds for every architecture, or Kbuild says what is missing."""

from __future__ import annotations

import pytest

from lab.checks import cross
from lab.machines.matrix import kernel_named

# What Debian's kernels for them lack, and Kbuild's words for it.
REFUSED: dict[str, str] = {}


@pytest.mark.parametrize(
    ("target", "name"),
    [
        pytest.param(target, name, id=f"{target.arch}-{name}")
        for target in cross.TARGETS
        for name in target.kernels
    ],
)
def test_module_builds(pytestconfig, target: cross.Target, name: str) -> None:
    if not pytestconfig.getoption("--every"):
        pytest.skip("needs the headers of all architectures; make test-all has them")
    outcome, why = cross.build(kernel_named(name), target)
    if outcome == cross.ABSENT:
        pytest.skip(f"{why}: the mirror does not have it")
    if target.arch in REFUSED:
        assert (outcome, why) == (cross.REFUSED, REFUSED[target.arch])
    else:
        assert outcome == cross.BUILT, why
