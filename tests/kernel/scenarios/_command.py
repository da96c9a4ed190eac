# SPDX-License-Identifier: GPL-2.0-or-later
"""The operator's command in the guest, and udev with its rule."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from lab.guest.devices import HERE, Device
from lab.guest.program import succeeds
from lab.guest.scenarios import Env

REPOSITORY = Path(__file__).resolve().parents[3]
SLUICE = (sys.executable, str(REPOSITORY / "bin/sluice"))
RULE = REPOSITORY / "packaging/60-sluice.rules"
CONFIG = Path("/etc/sluice.conf")
UDEV = "/usr/lib/systemd/systemd-udevd"
SECONDS = 240  # Python takes seconds to import what it needs, emulated


def needs_click(env: Env) -> None:
    """Skips where the command's libraries are older than Debian 12's."""
    version = metadata.version("click")
    if int(version.partition(".")[0]) < 8:
        env.skip(f"click 8: this distribution has {version}")
    env.defer(lambda: CONFIG.unlink(missing_ok=True))


def sluice(
    *arguments: str, status: int | None = 0, beside: Device = HERE
) -> str:
    """The command's output, in the device's namespace; it must print nothing to stderr
    when its status is 0. status: the one expected, None for any."""
    done = subprocess.run(
        beside.command(*SLUICE, *arguments), capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    assert status in (None, done.returncode), (arguments, done.returncode, said)
    assert "Traceback" not in said and "\x1b" not in said, said
    assert done.returncode or not done.stderr, said
    assert done.stderr.count("\n") <= 1, done.stderr
    return said


@contextlib.contextmanager
def _udevd(beside: Device) -> Iterator[None]:
    """udevd renames devices, so it ends with its scenario."""
    process = subprocess.Popen(beside.command(UDEV))
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def start_udev(env: Env, beside: Device = HERE) -> None:
    """udev handles the devices of this device's namespace, until the scenario's end."""
    if shutil.which(UDEV) is None:
        env.skip(f"{UDEV}: not in this root")
    rules = Path("/run/udev/rules.d")
    rules.mkdir(parents=True, exist_ok=True)
    rule = RULE.read_text().replace("/usr/sbin/sluice", SLUICE[1])
    (rules / RULE.name).write_text(rule)
    env.defer(shutil.rmtree, rules)
    env.enter(_udevd(beside))
    env.wait_for(lambda: succeeds(["udevadm", "control", "--ping"]), "udev answers")
