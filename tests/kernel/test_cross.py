# SPDX-License-Identifier: GPL-2.0-or-later
"""The module builds for every architecture, or Kbuild says what is missing."""

from __future__ import annotations

import pytest

from lab.machines.matrix import NEWEST, kernel_named
from tests.kernel import _cross as cross

# Of the next suite's headers, if this suite's compiler lacks one of their options.
TOO_OLD = "gcc does not compile this kernel's headers"


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
    if outcome == cross.REFUSED and name == NEWEST:
        assert TOO_OLD in why
    else:
        assert outcome == cross.BUILT, why
