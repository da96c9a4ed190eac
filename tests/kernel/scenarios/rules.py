# SPDX-License-Identifier: GPL-2.0-or-later
"""The rules in the module: which settings a device gets in which namespace."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from dataclasses import replace

from lab.guest.devices import HERE
from lab.guest.scenarios import Env, scenario
from sluice.errors import NetlinkError
from sluice.netlink import RULES_MAX, Client, Device, Listener, Rule
from tests.kernel.scenarios._tap import tap
from tests.kernel.scenarios._traffic import read_device, set_device, set_qdisc

VPN_OFF = Rule("vpn*", "all", False, "", "/etc/sluice.conf:1")
HERE_SLOW = Rule(
    "here*", "all", True, "fq_codel", "/etc/sluice.conf:2", stall_ms=900, limit=77
)


SETTINGS = {"stall_ms": 901, "low_percent": 17, "limit": 53, "target_us": 3456}


def set_rules(*rules: Rule, reset: tuple = ()) -> None:
    with Client() as client:
        client.set_rules(rules, reset)


def read_only_device() -> Device:
    with Client() as client:
        (device,) = client.devices()
    return device


def read_settings() -> dict:
    found = read_only_device()
    return {name: getattr(found, name) for name in SETTINGS}


# In a network namespace of its own: makes a device and prints what its rule set.
ELSEWHERE = """
import sys
from sluice.netlink import Client
from sluice.errors import NetlinkError
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
        for reset in ((), ("vpn*",)):
            set_rules(VPN_OFF, HERE_SLOW, reset=reset)
            found = read_only_device()
            assert (found.limit, found.by_hand) == (50, ("limit",)), found
            assert found.by_rule == ("on", "stall-ms"), found
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
def last_matching_rule_applies(env: Env) -> None:
    env.load()
    env.enter(tap())
    other = Rule("h*", "all", False, "", "/etc/sluice.conf:9")
    for rules in ((HERE_SLOW, other, VPN_OFF), (other, HERE_SLOW, VPN_OFF)):
        set_rules(*rules)
        found = read_only_device()
        assert (found.on, found.rule) == (rules[1].on, rules[1].origin), found


@scenario(on="newest-native")
def settings_are_those_of_the_parameters_a_rule_and_by_hand(env: Env) -> None:
    env.load("default_on=0", "stall_ms=902", "low_percent=18", "target_us=3457")
    env.enter(tap())
    own = {"stall_ms": 902, "low_percent": 18, "limit": 0, "target_us": 3457}
    assert read_settings() == own and not read_only_device().on
    set_rules(Rule("here*", "all", True, "", "x:1", **SETTINGS))
    assert read_settings() == SETTINGS and read_only_device().on
    by_hand = {name: value + 2 for name, value in SETTINGS.items()}
    set_device(on=0, **by_hand)
    assert read_settings() == by_hand and not read_only_device().on


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
    set_device(stall_ms=900)  # by hand: it does not hold in another namespace
    env.run("ip", "link", "set", HERE.name, "netns", "there")
    there = read_device(replace(HERE, netns="there"))
    assert there.on and there.stall_ms == 250
    env.run("ip", "-n", "there", "link", "set", HERE.name, "netns", "1")
    assert not read_only_device().on
    assert device.queues


@scenario(on="newest-native")
def noqueue_against_a_rule_is_reported(env: Env) -> None:
    """Every ten seconds while it lasts; when it comes back, without that delay."""
    env.load()
    set_rules(HERE_SLOW)
    with Listener() as listener:

        def wait_for_report(seconds: float) -> float:
            """How long it took."""
            begun = time.monotonic()
            events = listener.read(seconds * env.patience)
            told = [(event.kind, event.ifname) for event in events]
            assert told == [("noqueue", HERE.name)], told
            return time.monotonic() - begun

        env.enter(tap())
        assert not listener.read(2), "it has fq_codel"
        set_qdisc(env, "noqueue")
        wait_for_report(5)
        took = wait_for_report(15)
        assert took > 5, f"reported again after {took:.1f} s"
        set_qdisc(env, "fq_codel")
        assert not listener.read(5), "it has fq_codel again"
        set_qdisc(env, "noqueue")
        wait_for_report(5)


@scenario(on="newest-native")
def table_of_rules_has_a_bound(env: Env) -> None:
    env.load()
    many = [Rule(f"t{n}", "all", True, "", "x:1") for n in range(RULES_MAX + 1)]
    with Client() as client:
        client.set_rules(many[:RULES_MAX])
        assert client.rules() == many[:RULES_MAX]
        try:
            client.set_rules(many)
        except NetlinkError as error:
            assert error.code in (errno.E2BIG, errno.ERANGE, errno.EINVAL), error
        else:
            raise AssertionError("too many were accepted")
        assert client.rules() == many[:RULES_MAX]
        client.set_rules([])
        assert client.rules() == []
