# SPDX-License-Identifier: GPL-2.0-or-later
"""The module builds on every kernel without a word from W=1 and sparse."""

from __future__ import annotations

import pytest

from lab.build import check_module
from lab.matrix import KERNELS
from lab.roots import ensure_root


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_compiler_and_sparse_are_silent(kernel) -> None:
    assert check_module(ensure_root(kernel)).warnings == []
