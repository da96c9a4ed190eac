# SPDX-License-Identifier: GPL-2.0-or-later
"""Loading and unloading, with nothing else going on."""

from __future__ import annotations

import ctypes
import errno
import os

from lab.guest.debug import finds_leaks, forget_leaks, read_leaks
from lab.guest.scenarios import Env, scenario
from sluice import netlink
from tests.kernel.scenarios import _ftrace, _memory
from tests.kernel.scenarios._requests import Asker
from tests.kernel.scenarios._tap import tap


def _assert_refused(name: str, value: str) -> None:
    with open(f"/sys/module/sluice/parameters/{name}", "r+") as parameter:
        before = parameter.read()
        try:
            os.pwrite(parameter.fileno(), value.encode(), 0)
        except OSError as error:
            assert error.errno == errno.EINVAL, error
        else:
            raise AssertionError(f"{name}={value} was accepted")
        assert os.pread(parameter.fileno(), 20, 0).decode() == before


@scenario
def loads_and_unloads(env: Env) -> None:
    env.load()
    assert os.path.exists("/sys/module/sluice")
    line = env.run("dmesg").rpartition("sluice: version ")[2]
    assert "default_on=1 stall_ms=250 low_percent=50 target_us=2000\n" in line, line
    for name, outside in ("stall_ms", "0"), ("low_percent", "96"), ("target_us", "-1"):
        _assert_refused(name, outside)
    env.run("rmmod", "sluice")
    assert not os.path.exists("/sys/module/sluice")


@scenario(on="newest-native")
def list_that_nobody_reads_does_not_keep_the_module(env: Env) -> None:
    """It fits into one message; the kernel holds the module for what follows."""
    env.load()
    with tap(), Asker() as asker:
        for cmd in (netlink.DEVICE_GET, netlink.QUEUE_GET, netlink.RULE_GET):
            asker.leave_dump(cmd)
        env.run("rmmod", "sluice")


@scenario(deadline=120, often=False)
def unloading_while_memory_is_refused_leaves_none(env: Env) -> None:
    """Every second allocation of who unloads fails: to empty a filter ftrace asks for
    memory."""
    if not finds_leaks() or not _memory.can_be_refused():
        env.skip("kmemleak, failslab: not in this kernel; make debug has some with them")
    _ftrace.mount_tracefs()
    delete = ctypes.CDLL(None).delete_module
    forget_leaks()
    for _ in range(5):
        env.load()
        with tap():
            _ftrace.settles_on_direct_call(env)
            with _memory.refused_memory([os.getpid()], 50):
                while delete(b"sluice", os.O_NONBLOCK):
                    pass  # for lack of memory: once more
        assert not os.path.exists("/sys/module/sluice")
    leaks = read_leaks()
    assert not leaks, leaks
