# SPDX-License-Identifier: GPL-2.0-or-later
"""The operator's command in the guest."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from lab.guest.scenarios import Env

REPOSITORY = Path(__file__).resolve().parents[3]
SLUICE = (sys.executable, str(REPOSITORY / "bin/sluice"))
CONFIG = Path("/etc/sluice.conf")
MODULES = Path("/lib/modules", os.uname().release)
SECONDS = 240  # Python takes seconds to import what it needs, emulated


def needs_click(env: Env) -> None:
    """Skips where the command's libraries are older than Debian 12's."""
    version = metadata.version("click")
    if int(version.partition(".")[0]) < 8:
        env.skip(f"click 8: this distribution has {version}")
    env.defer(lambda: CONFIG.unlink(missing_ok=True))


def install_module(env: Env) -> None:
    """Where DKMS puts it, until the end, among few others: depmod reads them all, which
    takes minutes, emulated."""
    few = env.enter(tempfile.TemporaryDirectory())
    parts = "modules.* build kernel/net kernel/drivers/net/tun.ko*"
    env.run("sh", "-ec", f"cd {MODULES}; cp -a --parents {parts} {few}")
    env.run("mount", "--bind", few, str(MODULES))
    env.defer(env.run, "umount", str(MODULES))
    env.run("install", "-D", str(env.module), str(MODULES / "updates/sluice.ko"))
    env.run("depmod")


def sluice(*arguments: str, status: int | None = 0) -> str:
    """The command's output; it must print nothing to stderr when its status is 0.
    status: the one expected, None for any."""
    done = subprocess.run([*SLUICE, *arguments], capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert status in (None, done.returncode), (arguments, done.returncode, said)
    assert "Traceback" not in said and "\x1b" not in said, said
    assert done.returncode or not done.stderr, said
    assert done.stderr.count("\n") <= 1, done.stderr
    return said
