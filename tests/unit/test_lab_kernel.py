# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel the lab builds is the one that was asked for, or none."""

from __future__ import annotations

import dataclasses

import pytest

from lab.checks.testing import KERNEL
from lab.failure import LabError
from lab.guest.debug import parse_is_watching
from lab.machines import kernels
from lab.machines.matrix import DEBUG, KERNELS, PACKAGED, Kernel
from lab.machines.roots import Root, builder_recipe, recipe, root_key
from lab.machines.tree import kernel_of

BUILT = [one for one in KERNELS if one.configs]


@pytest.fixture
def one(tmp_path, monkeypatch) -> Kernel:
    """A kernel of two files: TUN built in, and preemption chosen anew."""
    monkeypatch.setattr(kernels, "CONFIGS", tmp_path)
    (tmp_path / "a.config").write_text("CONFIG_TUN=y\nCONFIG_PREEMPT_VOLUNTARY=y\n")
    (tmp_path / "b.config").write_text(
        "# CONFIG_PREEMPT_VOLUNTARY is not set\nCONFIG_PREEMPT=y\n"
    )
    return dataclasses.replace(BUILT[0], configs=("a", "b"))


def test_files_are_put_on_top_of_each_other(one) -> None:
    assert list(kernels.wanted_options(one).values()) == [
        "CONFIG_TUN=y",
        "# CONFIG_PREEMPT_VOLUNTARY is not set",
        "CONFIG_PREEMPT=y",
        'CONFIG_LOCALVERSION="-b"',
    ]


def test_an_option_that_did_not_survive_is_refused(one) -> None:
    wanted = kernels.wanted_options(one)
    given = 'CONFIG_TUN=m\nCONFIG_PREEMPT=y\nCONFIG_LOCALVERSION="-b"\n'
    assert kernels.refused_options(wanted, given) == ["CONFIG_TUN=y"]
    refused = kernels.refused_options(wanted, given + "CONFIG_PREEMPT_VOLUNTARY=y\n")
    assert refused == ["CONFIG_TUN=y", "# CONFIG_PREEMPT_VOLUNTARY is not set"]


def test_an_option_that_is_empty_may_be_absent() -> None:
    wanted = {"CONFIG_KEYS": 'CONFIG_KEYS=""'}
    assert kernels.refused_options(wanted, "CONFIG_TUN=y\n") == []
    assert kernels.refused_options(wanted, 'CONFIG_KEYS="a.pem"\n') == [*wanted.values()]


@pytest.mark.parametrize(
    ("config", "suite", "clang"),
    [
        ("CONFIG_CC_IS_GCC=y\nCONFIG_GCC_VERSION=100201\n", "bullseye", False),
        ("CONFIG_GCC_VERSION=110401\n", "bookworm", False),
        ("CONFIG_GCC_VERSION=150200\n", "trixie", False),
        ("CONFIG_TUN=m\n", "trixie", False),
        ("CONFIG_CC_IS_CLANG=y\nCONFIG_CLANG_VERSION=180103\n", "trixie", True),
    ],
)
def test_a_tree_is_built_with_the_compiler_of_its_configuration(
    config, suite, clang, tmp_path
) -> None:
    (tmp_path / "Kconfig").touch()
    (tmp_path / ".config").write_text(config)
    kernel = kernel_of(tmp_path, None)
    assert (kernel.suite, kernel.clang) == (suite, clang)
    assert not any("linux-source" in word for word in builder_recipe(kernel))


def test_another_tree_or_configuration_makes_another_root(tmp_path) -> None:
    (tmp_path / "Kconfig").touch()
    (tmp_path / ".git").mkdir()
    config = tmp_path / "config"
    config.write_text("CONFIG_TUN=m\n")
    keys = [root_key(kernel_of(tmp_path, config))]
    (tmp_path / ".git" / "index").touch()  # no part of the source
    assert root_key(kernel_of(tmp_path, config)) == keys[0]
    config.write_text("CONFIG_TUN=y\n")
    keys.append(root_key(kernel_of(tmp_path, config)))
    (tmp_path / "tun.c").touch()
    keys.append(root_key(kernel_of(tmp_path, config)))
    assert len({*keys}) == 3


def _builds(given: str, asked: list[str]):
    """Stands for the root the kernel is built in."""

    def run(root, work, script: str, failure: str, remedy: str) -> str:
        asked.append(script)
        (work / "given.config").write_text(given)
        return ""

    return run


@pytest.mark.parametrize("given", ["CONFIG_PREEMPT=y\nCONFIG_TUN=m\n", ""])
def test_another_kernel_than_wanted_is_not_built(
    one, given, tmp_path, monkeypatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(kernels, "must_run_in_root", _builds(given, asked))
    builder = Root(one.name, tmp_path, "", "", "")
    with pytest.raises(LabError, match="CONFIG_TUN=y"):
        kernels.build_kernel(one, builder, tmp_path)
    assert len(asked) == 1, "it was built all the same"


def test_another_configuration_makes_another_root(one, tmp_path) -> None:
    before = root_key(one)
    (tmp_path / "a.config").write_text("CONFIG_TUN=m\n")
    assert root_key(one) != before


@pytest.mark.parametrize("built", BUILT, ids=lambda built: built.name)
def test_built_kernels_come_from_source_and_are_not_played_often(built) -> None:
    assert built not in KERNEL.often
    assert (built in DEBUG) + (built in KERNEL.kernels) == built.module
    assert built not in PACKAGED
    assert any("linux-source-" in part for part in builder_recipe(built))
    assert not any("linux-" in part for part in recipe(built))


def test_lockdep_says_whether_it_is_watching() -> None:
    text = " lock-classes:     1 [max: 8192]\n debug_locks:      {}\n"
    assert parse_is_watching(text.format(1))
    assert not parse_is_watching(text.format(0))
    assert not parse_is_watching("")
