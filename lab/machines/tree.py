# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel of the user's own: his source tree, with its configuration."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lab.cache import digest
from lab.failure import UsageError
from lab.machines.matrix import Kernel

NAME = "tree"  # in the lab's output, and of its file in configs/
IGNORED = ".git"
# The compilers of Debian's suites, the oldest first.
COMPILERS = {
    "gcc": {"bullseye": 10, "bookworm": 12, "trixie": 14},
    "clang": {"bullseye": 11, "bookworm": 14, "trixie": 19},
}


def choose_suite(config: str) -> tuple[str, bool]:
    """The first suite whose compiler is as new as the configuration's, or the last; and
    whether that is clang."""
    clang = "\nCONFIG_CC_IS_CLANG=y\n" in f"\n{config}"
    name = "clang" if clang else "gcc"
    found = re.search(rf"^CONFIG_{name.upper()}_VERSION=(\d+)$", config, re.MULTILINE)
    wanted = int(found[1]) // 10000 if found else 0
    suites = COMPILERS[name]
    fitting = [suite for suite in suites if 0 < wanted <= suites[suite]]
    return (fitting or [*suites][-1:])[0], clang


def _describe(tree: Path) -> str:
    """Changes when a file of the tree does."""
    lines = []
    for folder, folders, files in os.walk(tree):
        folders[:] = sorted(name for name in folders if name != IGNORED)
        for name in sorted(files):
            facts = os.lstat(os.path.join(folder, name))
            lines.append(f"{folder}/{name} {facts.st_size} {facts.st_mtime_ns}")
    return "\n".join(lines)


def kernel_of(tree: Path, config: Path | None) -> Kernel:
    """config: if it is not the tree's own .config."""
    tree = tree.absolute()
    config = (config or tree / ".config").absolute()
    if not (tree / "Kconfig").is_file():
        raise UsageError(f"{tree}: no source tree of a kernel; it has no Kconfig")
    if not config.is_file():
        raise UsageError(f"{config}: not there; name the configuration with --config")
    text = config.read_text()
    suite, clang = choose_suite(text)
    return Kernel(
        name=NAME,
        suite=suite,
        extra_suites=(),
        release=tree.name,
        often=False,
        configs=("guest", "qemu", NAME),
        clang=clang,
        tree=tree,
        config=config,
        version=digest(_describe(tree), text),
    )
