# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's source that the patches of series/ are made from: unpacked in the cache,
configured, with the files that they touch in a git repository of its own.

It comes from the distribution's package, or from a git tree of the user's, which is read
and not changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from lab import processes
from lab.cache import cache_dir, cached, digest, digest_files
from lab.failure import UsageError
from lab.machines.chroot import Root, must_run_in_root, run_in_root
from lab.machines.vm import REPOSITORY
from lab.setup import say

CONFIG = REPOSITORY / "series" / "kernel.config"
_PREPARE = """
mkdir linux
tar -xf {archive} -C linux --strip-components=1
cd linux
make -s KCONFIG_ALLCONFIG=/mnt/kernel.config allnoconfig
make -s -j{jobs} prepare modules_prepare
git init -q
echo '*' >.git/info/exclude
git config user.name "Your Name"
git config user.email you@example.org
git config advice.detachedHead false
git add -f LICENSES {files}
git commit -q -m base
git tag base
"""
_IN_TREE = "export HOME=/tmp; cd linux; "
_OWN_ARCHIVE = "source.tar"  # beside the tree that is unpacked from it
# What the flag's patches added: the series takes it out again.
_OF_NEWEST = "__tun_wake_queue"


@dataclass(frozen=True)
class Tree:
    """A kernel's source, and what the patches need to know of it."""

    root: Root  # the tools
    release: str  # 7.3
    version: str  # of the package, or of the tree's last commit
    newest: bool  # the driver wakes its queue as that of the newest package does
    own: Path | None = None  # a git tree of the user's
    work: Path = Path()  # in the cache, once ensure_tree() has unpacked it there

    @property
    def name(self) -> str:
        return f"{self.own}" if self.own else f"linux-source-{self.release}"

    @property
    def linux(self) -> Path:
        """A git repository of the touched files."""
        return self.work / "linux"

    def run(self, script: str) -> tuple[int, str]:
        return run_in_root(self.root, self.work, _IN_TREE + script)

    def must(self, script: str) -> str:
        failure, remedy = f"series: '{script}' fails", "correct series/"
        script = _IN_TREE + script
        return must_run_in_root(self.root, self.work, script, failure, remedy)


def _git(tree: Path, *arguments: str) -> str:
    """Also if the tree is another user's."""
    command = ["git", "-c", "safe.directory=*", "-C", str(tree), *arguments]
    done = processes.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise UsageError(
            f"{tree}: not the top folder of a kernel's git tree "
            f"({processes.last_line(done.stderr)}); name that folder"
        )
    return done.stdout


def of_user(tree: Path, tools: Root) -> Tree:
    """What is committed in a git tree; tools: the root in which it is built."""
    tree = tree.absolute()
    makefile = _git(tree, "show", "HEAD:Makefile")
    release = ".".join(re.findall(r"^(?:VERSION|PATCHLEVEL) = (\d+)$", makefile, re.M))
    newest = _OF_NEWEST in _git(tree, "show", "HEAD:drivers/net/tun.c")
    commit = _git(tree, "rev-parse", "HEAD").strip()
    return Tree(tools, release, commit, newest, tree)


def ensure_tree(tree: Tree, touched: set[str]) -> Tree:
    """It, with these files in git: from the cache, or unpacked now."""
    files = " ".join(sorted(touched))
    packed = f"/mnt/{_OWN_ARCHIVE}" if tree.own else f"/usr/src/{tree.name}.tar.xz"
    script = _PREPARE.format(archive=packed, jobs=os.cpu_count() or 1, files=files)
    own = [tree.version] if tree.own else []
    key = digest(tree.root.key, script, digest_files([CONFIG]), *own)
    final = cache_dir() / "series" / f"{tree.release}-{key}"
    failure = f"{tree.name}: cannot be prepared"
    remedy = "correct series/kernel.config or the names of files in series/"
    with cached(final) as work:
        if work:
            say(f"series: unpacking {tree.name} (2 minutes)")
            shutil.copy(CONFIG, work / "kernel.config")
            archive = work / _OWN_ARCHIVE
            if tree.own:
                options = ("--prefix=linux/", f"--output={archive}", tree.version)
                _git(tree.own, "archive", *options)
            must_run_in_root(tree.root, work, script, failure, remedy)
            archive.unlink(missing_ok=True)
    return replace(tree, work=final)
