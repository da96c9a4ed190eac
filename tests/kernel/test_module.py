# SPDX-License-Identifier: GPL-2.0-or-later
"""The module builds on every kernel without a word from W=1 and sparse, and
is written as checkpatch --strict wants it."""

from __future__ import annotations

import shutil

import pytest

from lab.checks.testing import scenario_root
from lab.machines.build import KMOD, TEST_MODULES, check_module, check_style, source_files
from lab.machines.matrix import PACKAGED, kernel_named

CLANG = kernel_named("6.12-clang")
BROKEN = """
int sluice_wrong(int __user *there);
int sluice_wrong(int __user *there) { return *there; }
"""


@pytest.mark.parametrize("kernel", (*PACKAGED, CLANG), ids=lambda kernel: kernel.name)
def test_compiler_and_sparse_are_silent(kernel, pytestconfig: pytest.Config) -> None:
    if kernel is CLANG and not pytestconfig.getoption("--every"):
        pytest.skip("this kernel is built from source; make test-all has it")
    assert check_module(scenario_root(kernel)) == []


@pytest.mark.parametrize("kernel", PACKAGED, ids=lambda kernel: kernel.name)
def test_sparse_notices_a_user_pointer(kernel, tmp_path) -> None:
    source = tmp_path / "kmod"
    shutil.copytree(KMOD, source)
    with open(source / "main.c", "a") as main:
        main.write(BROKEN)
    warnings = check_module(scenario_root(kernel), source)
    assert any("main.c" in line and "noderef" in line for line in warnings), warnings


def test_checkpatch_is_silent() -> None:
    folders = (KMOD, *TEST_MODULES)
    sources = [path for folder in folders for path in source_files(folder)]
    assert check_style(sources) == []
