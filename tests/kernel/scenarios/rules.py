# SPDX-License-Identifier: GPL-2.0-or-later
"""The rules in the module: which settings a device gets in which namespace."""

from __future__ import annotations

import errno
import subprocess
import sys
from dataclasses import replace

from pyroute2.netlink.exceptions import NetlinkError

from lab.guest.scenarios import Env, scenario
from lab.guest.devices import HERE
from sluice.netlink import RULES_MAX, Client, Device, Listener, Rule
from tests.kernel.scenarios._tap import tap
from tests.kernel.scenarios._traffic import read_device

VPN_OFF = Rule("vpn*", "all", False, "", "/etc/sluice.conf:1")
HERE_SLOW = Rule(
    "here*", "all", True, "fq_codel", "/etc/sluice.conf:2", stall_ms=900, limit=77
)


def set_rules(*rules: Rule, reset: tuple = ()) -> None:
    with Client() as client:
        client.set_rules(rules, reset)


def read_only_device() -> Device:
    with Client() as client:
        (device,) = client.devices()
    return device


# In a network namespace of its own: makes a device and prints what its rule set.
ELSEWHERE = """
import sys
from pyroute2.netlink.exceptions import NetlinkError
from sluice.netlink import Client
from lab.guest.tun import IFF_TUN
from tests.kernel.scenarios._tap import Tap
device = Tap(IFF_TUN, sys.argv[1])
device.open_queue()
with Client() as client:
    (found,) = client.devices()
    print(found.on, found.rule or "-")
    try:
        client.set_rules([])
    except NetlinkError as error:
        print(error.code)
"""


def read_elsewhere(name: str) -> list:
    command = ["unshare", "--net", sys.executable, "-c", ELSEWHERE, name]
    return subprocess.check_output(command, universal_newlines=True).split()


@scenario
def rule_applies_when_a_device_appears_is_renamed_and_by_hand_wins(env: Env) -> None:
    env.load()
    set_rules(VPN_OFF, HERE_SLOW)
    with Client() as client:
        assert client.rules() == [VPN_OFF, HERE_SLOW]
        device = env.enter(tap())
        found = read_only_device()
        assert (found.on, found.stall_ms, found.limit) == (True, 900, 77), found
        assert found.by_rule == ("on", "stall-ms", "limit"), found
        assert (found.rule, found.qdisc) == (HERE_SLOW.origin, "fq_codel"), found
        client.set_device(found.ifindex, limit=50)
        assert read_only_device().by_hand == ("limit",)
        env.run("ip", "link", "set", HERE.name, "down")
        env.run("ip", "link", "set", HERE.name, "name", "vpn0")
        found = read_only_device()
        assert (found.on, found.stall_ms, found.limit) == (False, 250, 50), found
        assert found.rule == VPN_OFF.origin and not found.qdisc, found
        set_rules(reset=("vpn?",))
        found = read_only_device()
        assert (found.on, found.limit, found.rule) == (True, 0, ""), found
        assert not found.by_hand and not found.by_rule, found
    assert device.queues


@scenario(on="newest-native")
def rule_applies_in_every_namespace_or_in_the_host_alone(env: Env) -> None:
    """The other namespace has no name, as a container's."""
    env.load()
    set_rules(VPN_OFF)
    refused = str(errno.EPERM)
    assert read_elsewhere("vpn7") == ["False", VPN_OFF.origin, refused]
    host = Rule("vpn*", "host", False, "", "/etc/sluice.conf:1")
    set_rules(host)
    assert read_elsewhere("vpn7") == ["True", "-", refused]
    with Client() as client:
        assert client.rules() == [host], "set from elsewhere"


@scenario
def moved_device_gets_the_rule_of_its_new_namespace(env: Env) -> None:
    env.load()
    set_rules(Rule("here*", "host", False, "", "x:1"))
    env.run("ip", "netns", "add", "there")
    env.defer(env.run, "ip", "netns", "del", "there")
    device = env.enter(tap())
    assert not read_only_device().on
    env.run("ip", "link", "set", HERE.name, "netns", "there")
    assert read_device(replace(HERE, netns="there")).on
    env.run("ip", "-n", "there", "link", "set", HERE.name, "netns", "1")
    assert not read_only_device().on
    assert device.queues


@scenario(on="newest-native")
def noqueue_against_a_rule_is_reported(env: Env) -> None:
    env.load()
    set_rules(HERE_SLOW)
    with Listener() as listener:
        env.enter(tap())
        assert not listener.read(2 * env.patience), "it has fq_codel"
        env.run("tc", "qdisc", "replace", "dev", HERE.name, "root", "noqueue")
        (event,) = listener.read(5 * env.patience)
        assert (event.kind, event.ifname) == ("noqueue", HERE.name), event
        assert not listener.read(2 * env.patience), "reported again at once"
        env.run("tc", "qdisc", "replace", "dev", HERE.name, "root", "fq_codel")


@scenario(on="newest-native")
def refused_rules_change_nothing(env: Env) -> None:
    env.load()
    set_rules(VPN_OFF)
    many = [Rule(f"t{n}", "all", True, "", "x:1") for n in range(RULES_MAX + 1)]
    wrong = {
        "too many": many,
        "pattern too long": [HERE_SLOW, Rule("x" * 64, "all", True, "", "x:1")],
        "out of range": [Rule("x", "all", True, "", "x:1", stall_ms=0)],
    }
    with Client() as client:
        for what, rules in wrong.items():
            try:
                client.set_rules(rules)
            except NetlinkError as error:
                assert error.code in (errno.E2BIG, errno.ERANGE, errno.EINVAL), what
            else:
                raise AssertionError(f"{what}: accepted")
            assert client.rules() == [VPN_OFF], what
        client.set_rules(many[:RULES_MAX])
        assert client.rules() == many[:RULES_MAX]
        client.set_rules([])
        assert client.rules() == []
