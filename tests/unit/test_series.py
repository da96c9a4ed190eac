# SPDX-License-Identifier: GPL-2.0-or-later
"""make series, as far as it needs no kernel source: what its patches are made of."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.checks import driver, series_tree
from lab.failure import UsageError
from lab.machines.chroot import Root

TOOLS = Root("tools", Path("/nowhere"))
MAKEFILE = "# SPDX\nVERSION = 7\nPATCHLEVEL = 4\nSUBLEVEL = 0\nEXTRAVERSION = -rc1\n"


@pytest.mark.parametrize("patch", range(2, driver.LAST + 1))
def test_each_patch_has_files_of_its_own(patch: int) -> None:
    files = driver.driver_files(patch)
    assert not any("#if PATCH" in text for text in files.values())
    selftest = files[driver.SELFTEST]
    assert compile(selftest, driver.SELFTEST, "exec")
    assert ("flags |= IFF_BACKPRESSURE" in selftest) == (patch < 7)  # then all have it


def commit(tree: Path, driver: str) -> None:
    (tree / "drivers" / "net").mkdir(parents=True)
    (tree / "drivers" / "net" / "tun.c").write_text(driver)
    (tree / "Makefile").write_text(MAKEFILE)
    git = ["git", "-C", str(tree), "-c", "user.name=A", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "base"]):
        subprocess.run([*git, *arguments], check=True)


@pytest.mark.parametrize("wakes", [True, False])
def test_a_users_tree_gets_the_patches_of_its_driver(tmp_path: Path, wakes: bool) -> None:
    commit(tmp_path, "static void __tun_wake_queue(void);\n" if wakes else "\n")
    found = series_tree.of_user(tmp_path, TOOLS)
    assert (found.release, found.newest) == ("7.4", wakes)


def test_a_folder_that_is_no_git_tree_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="git tree"):
        series_tree.of_user(tmp_path, TOOLS)
