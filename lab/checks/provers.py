# SPDX-License-Identifier: GPL-2.0-or-later
"""The proofs' tools: herd7, SPIN and a compiler, unpacked into the cache."""

from __future__ import annotations

from pathlib import Path

from lab.cache import cache_dir, cached, digest
from lab.machines.build import ensure_kernel_files
from lab.machines.chroot import Root
from lab.machines.matrix import kernel_named
from lab.machines.roots import ensure_root, unpack
from lab.setup import ensure_tools, say

SUITE = "forky"  # the first with herdtools7
PACKAGES = (
    "base-files", "coreutils", "dash", "gcc", "herdtools7", "libc6-dev", "make", "spin"
)
MOUNTED = ("dev", "mnt", "proc", "tmp")  # see chroot.run_in_root()
# The kernel's own: its memory model, and the ring of the stock driver.
MEMORY_MODEL = (
    "linux-kernel.bell",
    "linux-kernel.cat",
    "linux-kernel.cfg",
    "linux-kernel.def",
    "lock.cat",
)
RING = "ptr_ring.h"


def ensure_provers() -> Root:
    """A root to run the tools in: from the cache, or unpacked now."""
    ensure_tools()
    key = digest(SUITE, *PACKAGES, *MOUNTED)
    final = cache_dir() / "provers" / key
    with cached(final, "provers") as unfinished:
        if unfinished:
            say(f"provers: unpacking those of {SUITE} (less than a minute)")
            tree = unfinished / "tree"
            unpack("provers", SUITE, PACKAGES, tree)
            for folder in MOUNTED:
                (tree / folder).mkdir(exist_ok=True)
    return Root("provers", final / "tree", release="", package="", key=key)


def ensure_kernel_model() -> Path:
    """The directory of MEMORY_MODEL and RING."""
    root = ensure_root(kernel_named("6.12"))  # its suite has that source
    return ensure_kernel_files(root, "memory-model", (*MEMORY_MODEL, RING))
