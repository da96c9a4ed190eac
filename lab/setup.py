# SPDX-License-Identifier: GPL-2.0-or-later
"""What this machine lacks for the lab, and how it gets it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from lab.errors import Unsuitable

# The command the lab runs -> the Debian package that has it.
TOOLS = {
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def missing_packages() -> list[str]:
    """The packages of the tools that are not on this machine."""
    return sorted(
        {package for tool, package in TOOLS.items() if not shutil.which(tool)}
    )


def require_root() -> None:
    if os.geteuid() != 0:
        raise Unsuitable(
            "this user: not root, and roots and modules are built in a chroot; "
            "run it through make, or through sudo"
        )


def install(packages: list[str]) -> None:
    """Install Debian packages, saying so before."""
    if not packages:
        return
    if not shutil.which("apt-get"):
        raise Unsuitable(
            f"{' '.join(packages)}: missing, and this machine has no apt-get; "
            "install them by other means"
        )
    steps = (
        ["apt-get", "-qq", "update"],
        ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *packages],
    )
    for step in steps:
        say("+ " + " ".join(step))
        done = subprocess.run(
            step,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
        )
    if done.returncode != 0:
        raise Unsuitable(
            f"{' '.join(packages)}: apt-get could not install them "
            "(see above); install them by hand and run again"
        )


def ensure_tools() -> None:
    require_root()
    install(missing_packages())
