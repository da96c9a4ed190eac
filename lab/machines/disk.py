# SPDX-License-Identifier: GPL-2.0-or-later
"""A root as a disk image, for jobs that ask for many small files.

On the 9p share each name asks the host; apt, dkms and make ask for thousands.
"""

from __future__ import annotations

from pathlib import Path

from lab import processes
from lab.cache import cache_dir, cached, digest
from lab.machines.chroot import Root
from lab.setup import say

SIZE = "4G"  # sparse: what the root takes, and no more
COMMAND = ("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0")


def ensure_disk(root: Root) -> Path:
    final = cache_dir() / "disks" / f"{root.kernel}-{digest(root.key, *COMMAND, SIZE)}"
    with cached(final) as work:
        if work:
            say(f"kernel {root.kernel}: copying its root to a disk image (seconds)")
            make(root, work / "root.ext4")
    return final / "root.ext4"


def make_empty(image: Path) -> None:
    """For what a guest changes; a boot after its end finds it again."""
    _run("mke2fs", "-q", "-t", "ext4", str(image), SIZE)


def make(root: Root, image: Path) -> None:
    """The image, with the files' extended attributes."""
    _run(*COMMAND, "-d", str(root.path), str(image), SIZE)


def _run(*command: str) -> None:
    processes.must_run(command, f"{' '.join(command)}: fails", "is the disk full?")
