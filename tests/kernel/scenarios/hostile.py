# SPDX-License-Identifier: GPL-2.0-or-later
"""Broken requests, users without rights, and namespaces deleted under traffic."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace

from lab.guest.devices import HERE, THERE, Device, Reader, attach
from lab.guest.devices import reader as open_reader
from lab.guest.scenarios import Env, scenario
from sluice import netlink
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._frames import Freed
from tests.kernel.scenarios._links import ENTRY, SOURCE, veth_pair
from tests.kernel.scenarios._requests import (
    ACK,
    DUMP,
    NESTED,
    NUMBERS,
    REQUEST,
    SETTINGS,
    UNKNOWN,
    Asker,
    attr,
    random_datagram,
    u8,
    u32,
    wrong_attrs,
)

SEED, DATAGRAMS = 1, 1500
IN_RING, IN_QDISC = 50, 100  # frames, of a device that is killed
ROUTER, SENDER = "10.94.0.1", "10.94.0.2"
REFUSED = (errno.EINVAL, errno.ERANGE)
IFINDEX = 1
# Each request of the family, and the attributes that it takes.
REQUESTS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "device-get": (REQUEST, netlink.DEVICE_GET, (IFINDEX,)),
    "device-get, all": (REQUEST | DUMP, netlink.DEVICE_GET, (IFINDEX,)),
    "device-set": (REQUEST | ACK, netlink.DEVICE_SET, (IFINDEX, *SETTINGS)),
    "queue-get, all": (REQUEST | DUMP, netlink.QUEUE_GET, (IFINDEX,)),
    "rule-get, all": (REQUEST | DUMP, netlink.RULE_GET, ()),
}
# Of the settings, by their attributes: see docs/sluice.yaml.
RANGES = {3: range(2), 7: range(1, 60001), 8: range(96), 12: range(100001)}
RIGHT_RULE = attr(1, b"tap*\0") + attr(3, u8(1))
WRONG_RULES = {
    "no pattern": attr(3, u8(1)),
    "no on": attr(1, b"tap*\0"),
    "too long": attr(1, b"x" * 64 + b"\0") + attr(3, u8(1)),
    "no NUL": attr(1, b"tap*") + attr(3, u8(1)),
    "unknown": RIGHT_RULE + attr(UNKNOWN, u32(1)),
    "netns": RIGHT_RULE + attr(2, u32(2)),
    "on": attr(1, b"tap*\0") + attr(3, u8(2)),
    "stall-ms": RIGHT_RULE + attr(4, u32(60001)),
    "low-percent": RIGHT_RULE + attr(5, u32(96)),
    "target-us": RIGHT_RULE + attr(7, u32(100001)),
    "qdisc": RIGHT_RULE + attr(8, b"q" * 16 + b"\0"),
    "origin": RIGHT_RULE + attr(9, b"o" * 128 + b"\0"),
}


@scenario
def every_attribute_in_every_wrong_form_is_refused(env: Env) -> None:
    env.load()
    net.sink(env)
    here = attr(IFINDEX, u32(net.ifindex()))
    with Asker() as asker:
        before = asker.settings(net.ifindex())
        for what, (flags, cmd, known) in REQUESTS.items():
            begin = here if IFINDEX in known else b""
            for number in NUMBERS:
                right = SETTINGS[number][0][0] if number in SETTINGS else u32(1)
                forms = dict(wrong_attrs(number, right))
                if number not in known:
                    forms["right, but for another request"] = attr(number, right)
                for wrong in SETTINGS[number][1] if number in SETTINGS else []:
                    forms[f"out of range: {wrong!r}"] = attr(number, wrong)
                for form, made in forms.items():
                    answer = asker.ask(flags, cmd, begin + made)
                    case = (what, number, form, answer)
                    assert answer.code in REFUSED and not answer.replies, case
                    assert answer.text or "shorter" in form, case
        assert asker.settings(net.ifindex()) == before
    net.assert_flows(env)


@scenario
def random_requests_leave_a_module_that_answers(env: Env) -> str:
    """Settings stay in their ranges."""
    env.load()
    net.sink(env)
    index, refused, changed = net.ifindex(), 0, 0
    with Asker() as asker:
        before = asker.settings(index)
        for number in range(DATAGRAMS):
            choose = random.Random(f"{SEED} {number}")
            datagram = random_datagram(choose, asker, index)
            answer = asker.send(datagram)
            now = asker.settings(index)
            case = f"datagram {number}: {datagram[:200].hex()}: {answer}, {now}"
            for setting, valid in RANGES.items():
                assert int.from_bytes(now[setting], sys.byteorder) in valid, case
            refused += answer.code != 0
            changed += now != before
            before = now
        assert refused and changed, f"{refused} refused, {changed} changed"
        on = attr(IFINDEX, u32(index)) + attr(3, b"\1")
        assert asker.ask(REQUEST | ACK, netlink.DEVICE_SET, on).code == 0
    assert net.read_device().on
    net.assert_flows(env)
    env.run("rmmod", "sluice")
    return f"{DATAGRAMS} datagrams, {refused} refused, {changed} changed a setting"


# Run by an unprivileged user, who becomes root of a user namespace.
BECOME_NAMESPACE_USER = """
import ctypes, os, sys
from sluice.errors import NetlinkError
from lab.guest.tun import IFF_TAP
from sluice.netlink import Client
NEWUSER, NEWNET, PR_SET_DUMPABLE = 0x10000000, 0x40000000, 4
ROOT, NOBODY = 0, 65534
libc = ctypes.CDLL(None, use_errno=True)
os.setgroups([])
os.setgid(NOBODY)
os.setuid(NOBODY)
libc.prctl(PR_SET_DUMPABLE, 1)
if libc.unshare(NEWUSER | (NEWNET if sys.argv[1] == "own" else 0)):
    print("no namespace:", os.strerror(ctypes.get_errno()))
    sys.exit()
for name, text in (
    ("setgroups", "deny"),
    ("uid_map", f"{ROOT} {NOBODY} 1"),
    ("gid_map", f"{ROOT} {NOBODY} 1"),
):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
assert os.getuid() == ROOT
if sys.argv[1] == "own":
    from tests.kernel.scenarios._tap import Tap
    tap = Tap(IFF_TAP)
    tap.open_queue()
"""
# Says which devices it sees, and what it is told when it sets them.
SETTING = """
def ask(ifindex):
    with Client() as client:
        try:
            client.set_device(ifindex, on=0)
        except NetlinkError as error:
            return error.code
    return 0

with Client() as client:
    seen = client.devices()
print([one.ifname for one in seen], [ask(one.ifindex) for one in seen], ask(9999))
"""
# Says what it reads of the rules: those of its devices, and the table of all.
READING = """
from sluice.netlink import RULE_GET
from tests.kernel.scenarios._requests import DUMP, REQUEST, Asker, parse_attrs
PATTERN = 1
with Client() as client:
    for one in client.devices():
        print(one.ifname, one.rule, one.stall_ms, one.by_rule)
with Asker() as asker:
    answer = asker.ask(REQUEST | DUMP, RULE_GET, b"")
patterns = [parse_attrs(rule)[PATTERN].decode() for rule in answer.replies]
print(answer.code, [pattern.rstrip(chr(0)) for pattern in patterns])
"""


def _ask_as_namespace_user(env: Env, where: str) -> list[str]:
    """What READING and SETTING say there."""
    env.run("chmod", "666", "/dev/net/tun")  # as udev does
    env.defer(env.run, "chmod", "600", "/dev/net/tun")
    program = BECOME_NAMESPACE_USER + READING + SETTING
    said = env.run(sys.executable, "-c", program, where).strip()
    if said.startswith("no namespace"):
        env.skip(f"user namespaces for users: {said}")
    return said.splitlines()


def _set_rules() -> None:
    """One that applies to HERE everywhere, and one of the host's network namespace."""
    rules = [
        netlink.Rule("here*", "all", True, "", "/etc/sluice.conf:7", stall_ms=900),
        netlink.Rule("vnet*", "host", False, "", "/etc/sluice.conf:8"),
    ]
    with netlink.Client() as client:
        client.set_rules(rules)


@scenario(on="newest-native")
def wrong_rule_is_refused_with_the_whole_table(env: Env) -> None:
    env.load()
    _set_rules()
    with Asker() as asker, netlink.Client() as client:
        before = client.rules()
        for what, wrong in WRONG_RULES.items():
            table = attr(1 | NESTED, RIGHT_RULE) + attr(1 | NESTED, wrong)
            answer = asker.ask(REQUEST | ACK, netlink.RULES_SET, table)
            assert answer.code in REFUSED and answer.text, (what, answer)
            assert client.rules() == before, what


@scenario
def root_of_a_user_namespace_reads_and_does_not_set(env: Env) -> None:
    """In the host's network namespace: its devices and all rules, as anybody may."""
    env.load()
    net.sink(env)
    _set_rules()
    told = _ask_as_namespace_user(env, "shared")
    assert told[1:] == [
        "0 ['here*', 'vnet*']",
        f"['{HERE.name}'] [{errno.EPERM}] {errno.EPERM}",
    ], told
    assert net.read_device().on


@scenario(on="newest-native")
def root_of_a_user_namespace_reads_and_sets_its_own_devices_only(env: Env) -> None:
    """Of the rules it reads those of its devices."""
    env.load()
    net.sink(env)
    _set_rules()
    told = _ask_as_namespace_user(env, "own")
    assert told == [
        f"{HERE.name} /etc/sluice.conf:7 900 ('on', 'stall-ms')",
        f"{errno.EPERM} []",
        f"['{HERE.name}'] [0] {errno.ENODEV}",
    ], told
    assert net.read_device().on, "the device of the same name elsewhere was switched"


# In a network namespace of its own: a tap that nobody reads, and senders.
DYING = """
import time
from lab.guest.devices import HERE, THERE, attach
from lab.guest.tun import IFF_TAP
from tests.kernel.scenarios._tap import Tap
from tests.kernel.scenarios._frames import send_frames
from tests.kernel.scenarios._traffic import Flood, read_queue
tap = Tap(IFF_TAP)
tap.open_queue()
attach(HERE, THERE, ring=100)
send_frames(%d)
with Flood(senders=2, flows=4):
    while read_queue().state != "stopped":
        time.sleep(0.01)
    send_frames(%d)
    print("stopped", flush=True)
    time.sleep(3600)
""" % (IN_RING, IN_QDISC)


@scenario(deadline=240, on="newest")
def namespace_and_all_in_it_are_killed(env: Env) -> None:
    """The device, its reader and blocked senders are killed at once: the packets in its
    ring and its qdisc are freed."""
    env.load("stall_ms=60000")  # or the stop may end before it is seen
    freed = Freed(env)
    for number in range(1, 4):
        command = ["unshare", "--net", sys.executable, "-c", DYING]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as dying:
            assert dying.stdout.readline() == "stopped\n"
            os.killpg(dying.pid, signal.SIGKILL)
        sent = number * (IN_RING + IN_QDISC)
        env.wait_for(lambda: freed.count >= sent, f"{sent} frames are freed", 30)
        assert freed.count == sent, "more were freed than sent"
    env.run("rmmod", "sluice")


def _route_into(env: Env, here: Device) -> Reader:
    """Packets to THERE are forwarded through another namespace to the device `here`,
    whose reader does not read."""
    name = here.netns
    env.run("ip", "netns", "add", name)
    veth_pair(env)
    process = env.enter(
        open_reader(env.helper("reader"), "sink", [here], "sluice", paused=True)
    )
    inside = ("ip", "netns", "exec", name)
    env.run("ip", "link", "set", ENTRY, "netns", name)
    env.run(*inside, "ip", "link", "set", ENTRY, "up")
    env.run(*inside, "ip", "address", "add", f"{ROUTER}/24", "dev", ENTRY)
    env.run(*inside, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    attach(here, THERE, ring=100)
    env.run("ip", "address", "add", f"{SENDER}/24", "dev", SOURCE)
    env.run("ip", "route", "add", THERE.address, "via", ROUTER)
    return process


@scenario(deadline=300)
def namespace_dies_while_packets_are_forwarded_into_it(env: Env) -> None:
    """Its queue is stopped when the namespace is deleted and the last file is closed;
    senders in another namespace go on all the time."""
    env.load("stall_ms=60000")  # a slow kernel looks seldom
    here = replace(HERE, netns="dying")
    for _ in range(2):
        reader = _route_into(env, here)
        with net.Flood(senders=2, flows=4) as senders:
            env.wait_for(
                lambda: net.read_queue(here).state == "stopped", "the stop", 60
            )
            env.run("ip", "netns", "del", here.netns)
            reader.kill()
            env.wait_for(
                lambda: not os.path.exists(f"/sys/class/net/{SOURCE}"),
                "the namespace is gone",
                seconds=30,
            )
            senders.end()
    net.sink(env, ring=100, paused=True)
    net.send(200)
    assert net.read_queue().state == "stopped", "the next device is not served"
    env.run("rmmod", "sluice")
