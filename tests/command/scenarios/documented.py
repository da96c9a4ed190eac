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
from tests._terminal import Terminal
from tests.kernel.scenarios._command import REPOSITORY, install_module, needs_click
from tests.kernel.scenarios._ftrace import mount_tracefs
from tests.kernel.scenarios._tap import Tap

LOADED = Path("/sys/module/sluice")
COLLECTED = Path("/var/lib/prometheus/node-exporter")
BARE = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=POSIX")
ENDLESS, ON_A_TERMINAL = "sluice monitor", "sluice watch"
DEVICES = {"tun0": IFF_TUN, "tap0": IFF_TAP, "vnet0": IFF_TAP, "vnet3": IFF_TAP}
WRITTEN = ("/etc/modprobe.d/sluice.conf", "/etc/modules-load.d/sluice.conf")


def install(env: Env) -> None:
    """The command and the module where a package puts them; gone at the end."""
    install_module(env)

    def remove() -> None:
        if LOADED.exists():
            env.run("rmmod", "sluice")
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


def play_on_a_terminal(command: list[str], seconds: int) -> tuple[int, str]:
    """Its exit status and what it showed until somebody typed q."""
    with contextlib.closing(Terminal([*BARE, "TERM=xterm", *command])) as terminal:
        ended = terminal.process.poll
        terminal.wait_for(lambda: bool(terminal.screen()) or ended() is not None, seconds)
        terminal.type(b"q")
        terminal.wait_for(lambda: ended() is not None, seconds)
        terminal.read_rest()
    return terminal.process.returncode, terminal.shown.decode()


def play(line: Line, folder: Path, patience: int) -> tuple[int, str]:
    """Its exit status and what it said; what never ends is interrupted, and without a
    trap its shell would be, too."""
    command = ["sh", "-c", f"umask 077; trap : INT\n{line.text}"]
    if line.text.startswith(ON_A_TERMINAL):
        return play_on_a_terminal(command, 60 * patience)
    endless = line.text.startswith(ENDLESS)
    with subprocess.Popen(
        [*BARE, *command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said = process.communicate(timeout=30 * patience if endless else None)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
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
    lines, wrong = played_lines(), []
    for line in lines:
        if not LOADED.exists():
            env.run("modprobe", "sluice")
        status, said = play(line, folder, env.patience)
        verdict = (0, 1) if "sluice doctor" in line.text else (0,)
        if status not in verdict or "Traceback" in said:
            wrong.append((line, status, said))
        if line.cron:
            mode = (COLLECTED / "sluice.prom").stat().st_mode & 0o777
            assert mode == 0o644, f"{mode:o}: node_exporter cannot read it"
    assert not wrong, wrong
    assert [line for line in lines if line.cron], "no line of cron"
    return f"{len(lines)} lines"
