# SPDX-License-Identifier: GPL-2.0-or-later
"""bpftrace's programs at the function that sluice hooks, before it is loaded and after.

Only roots with the package bpftrace have it: see tests/kernel/test_programs.py.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios import _ftrace, _others
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._ftrace import mount_tracefs

# Where bpftrace attaches, in its own notation.
KPROBE = "kprobe:tun:tun_net_xmit"
KRETPROBE = "kretprobe:tun:tun_net_xmit"
# With a pattern and without a module's name bpftrace attaches through kprobe.multi.
MULTI = "kprobe:tun_net_x*"
RETURN_MULTI = "kretprobe:tun_net_x*"
KPROBES = Path("/sys/kernel/debug/kprobes/list")
FENTRY = "fentry:tun:tun_net_xmit"
FEXIT = "fexit:tun:tun_net_xmit"
START_SECONDS = 120


class Refused(Exception):
    """bpftrace could not attach; its message."""


class Bpftrace:
    """Counts the calls of the function until end()."""

    def __init__(self, where: str) -> None:
        program = f'BEGIN {{ printf("attached\\n"); }} {where} {{ @calls = count(); }}'
        self._said = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            ["bpftrace", "-e", program],
            stdout=self._said,
            stderr=subprocess.STDOUT,
            env={**os.environ, "BPFTRACE_CACHE_USER_SYMBOLS": "NONE"},
        )

    def read(self) -> str:
        self._said.seek(0)
        return self._said.read()

    def wait_attached(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while "attached\n" not in self.read():
            if self._process.poll() is not None:
                raise Refused(self.read().strip())
            assert time.monotonic() < deadline, f"bpftrace: {self.read()}"
            time.sleep(0.1)

    def end(self) -> int:
        """How many calls it counted."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(START_SECONDS)
        calls = re.search(r"@calls: (\d+)", self.read())
        return int(calls[1]) if calls else 0

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._said.close()


@contextlib.contextmanager
def _attached(where: str) -> Iterator[_others.Calls]:
    program = Bpftrace(where)
    try:
        program.wait_attached()
        if where in (MULTI, RETURN_MULTI):
            assert _ftrace.TRANSMIT not in KPROBES.read_text(), "attached as one kprobe"
        yield program.end
    finally:
        program.kill()


def _prepare(env: Env) -> None:
    if not shutil.which("bpftrace"):
        env.skip("no bpftrace: tests/kernel/test_programs.py plays this where it is")
    mount_tracefs()


def _gives_way(env: Env, where: str) -> None:
    """A function has one direct call: the second user gets a callback or is refused."""
    if platform.machine() != "x86_64":
        env.skip("fentry programs use the direct call in this way on x86-64 only")
    _prepare(env)
    with _attached(where) as calls:
        reader = _others.load(env)
        assert not _ftrace.settles_on_direct_call(env)
        _others.assert_both_see_packets(env, reader, calls)
    env.run("rmmod", "sluice")
    env.load("stall_ms=60000")
    assert _ftrace.settles_on_direct_call(env)
    try:
        with _attached(where):
            pass
    except Refused as refused:
        assert "attaching probe" in str(refused), refused
    else:
        raise AssertionError("two direct calls of one function")
    _others.assert_stops_and_flows(env, reader)
    env.run("rmmod", "sluice")
    env.load("stall_ms=60000", "direct_call=0")
    with _attached(where) as calls:
        _others.assert_both_see_packets(env, reader, calls)


@scenario(deadline=1800)
def probes_come_first_or_second(env: Env) -> None:
    _prepare(env)
    for where in (KPROBE, KRETPROBE, MULTI, RETURN_MULTI):
        with net.case(env, where):
            _others.comes_first_or_second(env, lambda: _attached(where))


@scenario(deadline=1200)
def fentry_and_fexit_are_refused_only_beside_a_direct_call(env: Env) -> None:
    for where in (FENTRY, FEXIT):
        with net.case(env, where):
            _gives_way(env, where)
