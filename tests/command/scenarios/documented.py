# SPDX-License-Identifier: GPL-2.0-or-later
"""The command lines of README, docs/ and man/ as printed, in a bare environment."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_TAP, IFF_TUN
from tests._documented import Line, played_lines
from tests.kernel.scenarios._command import REPOSITORY, needs_click
from tests.kernel.scenarios._ftrace import mount_tracefs
from tests.kernel.scenarios._tap import Tap

MODULES = Path("/lib/modules", os.uname().release)
LOADED = Path("/sys/module/sluice")
COLLECTED = Path("/var/lib/prometheus/node-exporter")
BARE = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=POSIX")
ENDLESS = ("sluice watch", "sluice monitor")
DEVICES = {"tun0": IFF_TUN, "tap0": IFF_TAP, "vnet0": IFF_TAP, "vnet3": IFF_TAP}
WRITTEN = ("/etc/modprobe.d/sluice.conf", "/etc/modules-load.d/sluice.conf")


def install(env: Env) -> None:
    """The command and the module where a package puts them; gone at the end."""
    updates = MODULES / "updates"
    updates.mkdir(exist_ok=True)
    shutil.copy(env.module, updates)
    env.run("depmod")

    def remove() -> None:
        if LOADED.exists():
            env.run("rmmod", "sluice")
        (updates / env.module.name).unlink()
        env.run("depmod")
        for path in WRITTEN:
            Path(path).unlink(missing_ok=True)

    env.defer(remove)
    where = ("DESTDIR=/", "PREFIX=/usr", "CONF=/usr/lib")
    env.run("env", *where, str(REPOSITORY / "packaging/install"), "command")


@contextlib.contextmanager
def devices(env: Env) -> Iterator[None]:
    """Those that the documents name, each with a program that has it open."""
    open_ones = [Tap(flags, name) for name, flags in DEVICES.items()]
    for one in open_ones:
        one.open_queue()
        env.run("ip", "link", "set", "dev", one.name, "up")
    try:
        yield
    finally:
        for one in open_ones:
            one.close_queue(0)


def play(line: Line, folder: Path, patience: int) -> tuple[int, str]:
    """Its exit status and what it said; what never ends is interrupted."""
    endless = line.text.startswith(ENDLESS)
    with subprocess.Popen(
        [*BARE, "sh", "-c", f"umask 077\n{line.text}"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said = process.communicate(timeout=(5 if endless else 60) * patience)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT if endless else signal.SIGKILL)
            said = process.communicate()[0]
    return process.returncode, said


@scenario(deadline=900, on="newest", often=False)
def lines_of_the_documents_run_as_printed(env: Env) -> str:
    needs_click(env)
    mount_tracefs()  # what doctor asks for
    install(env)
    env.enter(devices(env))
    COLLECTED.mkdir(parents=True, exist_ok=True)
    env.defer(shutil.rmtree, COLLECTED)
    folder = Path(env.enter(tempfile.TemporaryDirectory()))
    lines = played_lines()
    for line in lines:
        if not LOADED.exists():
            env.run("modprobe", "sluice")
        status, said = play(line, folder, env.patience)
        verdict = (0, 1) if "sluice doctor" in line.text else (0,)
        assert status in verdict and "Traceback" not in said, (line, status, said)
        if line.cron:
            mode = (COLLECTED / "sluice.prom").stat().st_mode & 0o777
            assert mode == 0o644, f"{mode:o}: node_exporter cannot read it"
    assert [line for line in lines if line.cron], "no line of cron"
    return f"{len(lines)} lines"
