# SPDX-License-Identifier: GPL-2.0-or-later
"""Devices that sluice does not serve, and requests that it refuses."""

from __future__ import annotations

import errno
import socket
import sys
from pathlib import Path

from lab.guest.devices import HERE
from lab.guest.devices import sink as open_sink
from lab.guest.scenarios import Env, scenario
from lab.guest.tun import read_has_backpressure
from sluice import netlink
from sluice.netlink import Client, Rule
from tests.kernel.scenarios import _ftrace
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._ftrace import mount_tracefs
from tests.kernel.scenarios._links import ENTRY, veth_pair
from tests.kernel.scenarios._requests import DUMP, REQUEST, Asker, attr, u32


@scenario
def unknown_layouts_are_refused(env: Env) -> None:
    reasons = {
        "wild": "queue does not lead to a file",
        "other": "queue leads to a file that is not its own",
    }
    for layout, reason in reasons.items():
        with net.case(env, layout):
            env.load()
            net.sink(env)
            module = str(env.module.with_name("fake_tun.ko"))
            env.run("insmod", module, f"layout={layout}")
            env.defer(env.run, "rmmod", "fake_tun")
            env.run("ip", "link", "set", "fake0", "up")
            with Client() as client:
                device = client.device(socket.if_nametoindex("fake0"))
            assert (device.state, device.reason) == ("refused", reason), device
            assert net.read_device().state == "served", "the real device is not served"
            net.assert_flows(env)


def _set_ftrace(value: int) -> bool:
    """Returns whether the kernel accepts it."""
    try:
        Path("/proc/sys/kernel/ftrace_enabled").write_text(f"{value}\n")
    except OSError:
        return False
    return True


@scenario
def macvtap_and_ipvtap_are_not_served(env: Env) -> None:
    """They have rings, but no qdisc in front of them."""
    env.load()
    veth_pair(env)
    for kind in ("macvtap", "ipvtap"):
        try:
            env.run("ip", "link", "add", "link", ENTRY, "name", kind, "type", kind)
        except AssertionError:
            env.skip(f"this kernel has no {kind}")
        env.run("ip", "link", "set", kind, "up")
        with Client() as client:
            assert client.devices() == [], kind
        env.run("ip", "link", "del", kind)


@scenario
def without_ftrace_nothing_is_served(env: Env) -> None:
    if not _set_ftrace(0):
        env.skip("this kernel does not let ftrace be switched off")
    env.defer(_set_ftrace, 1)
    env.load()
    net.sink(env, ring=8, paused=True)
    device = net.read_device()
    assert device.state == "refused" and "ftrace" in device.reason, device
    net.send(23)
    assert net.counters().lost_at_ring == 15


@scenario
def ftrace_stays_on_while_a_device_is_served(env: Env) -> None:
    mount_tracefs()
    env.load("stall_ms=60000")
    reader = net.sink(env, ring=8, paused=True)
    _ftrace.settles_on_direct_call(env)
    assert not _set_ftrace(0), "ftrace was switched off"
    net.send(23)
    assert net.read_queue().state == "stopped"
    reader.resume()
    net.assert_flows(env)


@scenario
def backpressure_flag_is_shown_as_upstream(env: Env) -> None:
    if not read_has_backpressure():
        env.skip("this kernel has no IFF_BACKPRESSURE")
    env.load()
    reader = env.enter(open_sink(env.helper("reader"), "upstream", ring=100))
    assert net.read_device().state == "upstream"
    reader.pause()
    net.send(300)
    assert net.read_queue().stops == 0, "sluice stopped a queue upstream serves"
    assert net.counters().lost_at_ring == 0, "IFF_BACKPRESSURE does not work"
    reader.resume()
    net.assert_flows(env)


def _attr(number: int, value: int) -> bytes:
    return attr(number, u32(value))


@scenario
def every_refusal_says_why(env: Env) -> None:
    """Also to requests for no device; hostile.py has the wrong attributes."""
    env.load()
    net.sink(env)
    before = net.read_device()
    get, set_, queues = netlink.DEVICE_GET, netlink.DEVICE_SET, netlink.QUEUE_GET
    wrong = {
        "get: nothing": (REQUEST, get, b""),
        "get: absent": (REQUEST, get, _attr(1, 99999)),
        "set: nothing": (REQUEST, set_, b""),
        "set: no device": (REQUEST, set_, _attr(1, 0)),
        "set: lo": (REQUEST, set_, _attr(1, 1)),
        "set: absent": (REQUEST, set_, _attr(1, 99999)),
        "devices: absent": (REQUEST | DUMP, get, _attr(1, 99999)),
        "queues: absent": (REQUEST | DUMP, queues, _attr(1, 99999)),
    }
    with Asker() as asker:
        for what, (flags, cmd, attrs) in wrong.items():
            answer = asker.ask(flags, cmd, attrs)
            known = (errno.EINVAL, errno.ERANGE, errno.ENODEV)
            assert answer.code in known, (what, answer)
            assert answer.text, f"{what}: errno {answer.code} without a message"
    assert net.read_device() == before


PLAIN_USER = """
from sluice.netlink import DEVICE_SET, RULES_SET, Client
from tests.kernel.scenarios._requests import REQUEST, Asker, attr, u32
import os, socket, sys
os.setuid(65534)
index = socket.if_nametoindex(sys.argv[1])
with Client() as client, Asker() as asker:
    assert client.device(index).on
    off = attr(1, u32(index)) + attr(3, b"\\0")
    for command, attrs in (DEVICE_SET, off), (RULES_SET, b""):
        answer = asker.ask(REQUEST, command, attrs)
        print(answer.code, answer.text)
"""


@scenario
def plain_user_sees_and_does_not_set(env: Env) -> None:
    env.load()
    net.sink(env)
    with Client() as client:
        client.set_rules([Rule("vpn*", "all", True, "", "x:1")])
        said = env.run(sys.executable, "-c", PLAIN_USER, HERE.name).splitlines()
        assert said == [f"{errno.EPERM} CAP_NET_ADMIN is missing"] * 2, said
        assert len(client.rules()) == 1, "a plain user removed the rules"
    assert net.read_device().on
