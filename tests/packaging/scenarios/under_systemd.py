# SPDX-License-Identifier: GPL-2.0-or-later
"""The packages where systemd is the first process: upgrade, purge, and a reboot.

Played by tests/packaging/test_under_systemd.py.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from lab.guest.devices import HERE
from lab.guest.scenarios import Env, scenario
from sluice import VERSION
from sluice.netlink import Client
from tests.kernel.scenarios._traffic import assert_flows, read_device, sink
from tests.packaging.scenarios import _machine as debian
from tests.systemd.scenarios._machine import container, read_state

CONFIG = Path("/etc/sluice.conf")
RULES = f"tun* off\n{HERE.name} on stall-ms=900\n"
BOOT = Path("/proc/sys/kernel/random/boot_id")
FIRST_BOOT = Path("/etc/first-boot")
# A namespace with a device before the service starts.
BEFORE = """\
[Unit]
DefaultDependencies=no
After=local-fs.target
Before=sluice.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/ip netns add before
ExecStart=/bin/ip -n before tuntap add tun0 mode tun
[Install]
WantedBy=multi-user.target
"""


def _needs_systemd(env: Env) -> None:
    if Path("/proc/1/comm").read_text() != "systemd\n":
        env.skip("systemd is not the first process")


def _assert_running() -> None:
    failed = debian.run("systemctl", "--failed", "--no-legend")
    assert read_state() == "running", failed.said


def _has_unit() -> bool:
    return subprocess.run(["systemctl", "cat", "sluice"]).returncode == 0


@scenario(deadline=1800, often=False)
def taps_in_use_outlive_an_upgrade_and_a_purge(env: Env) -> None:
    _needs_systemd(env)
    reader = sink(env, ring=100)
    debian.apt_install(env)
    CONFIG.write_text(RULES)
    env.run("systemctl", "reload-or-restart", "sluice")
    inside = env.enter(container())
    assert not inside.is_on()
    newer = debian.newer_package(env, f"{VERSION}.1")
    with debian.pings():
        debian.apt("install", newer)
    assert Path("/sys/module/sluice/version").read_text().strip() == f"{VERSION}.1"
    assert read_device().stall_ms == 900, "the rules were lost"
    assert not inside.is_on(), "the rules were lost in the container"
    debian.assert_served(env, reader)
    assert env.run("systemctl", "is-active", "sluice") == "active\n"
    _assert_running()
    with debian.pings():
        debian.purge()
    assert_flows(env)
    assert not Path("/sys/module/sluice").exists(), "the module is still loaded"
    assert not CONFIG.exists() and not _has_unit()
    _assert_running()


@scenario(deadline=1200, often=False)
def boot_1_installs_the_packages(env: Env) -> None:
    _needs_systemd(env)
    _assert_running()
    debian.apt("install", *(debian.package(name) for name in debian.names()))
    CONFIG.write_text(RULES)
    Path("/etc/systemd/system/before.service").write_text(BEFORE)
    env.run("systemctl", "enable", "before")
    FIRST_BOOT.write_text(BOOT.read_text())
    env.run("sync")


@scenario(deadline=600, often=False)
def boot_2_has_the_rules_in_force(env: Env) -> None:
    _needs_systemd(env)
    if not FIRST_BOOT.exists():
        env.skip("this is the first boot")
    assert FIRST_BOOT.read_text() != BOOT.read_text()
    _assert_running()
    assert env.run("systemctl", "is-active", "sluice", "before") == "active\n" * 2
    env.run("ip", "netns", "add", "after")
    env.run("ip", "-n", "after", "tuntap", "add", "tun0", "mode", "tun")
    env.run("ip", "tuntap", "add", HERE.name, "mode", "tap")
    with Client() as client:
        assert len(client.rules()) == 2
    found = {
        (device["netns"], device["name"]): device
        for device in json.loads(env.run("sluice", "--json"))["devices"]
    }
    expected = {("before", "tun0"): 1, ("after", "tun0"): 1, ("", HERE.name): 2}
    assert {key: one["rule"] for key, one in found.items()} == {
        key: f"{CONFIG}:{line}" for key, line in expected.items()
    }, found
    on = {key for key, device in found.items() if device["on"]}
    assert on == {("", HERE.name)}, found
    assert debian.run("sluice", "doctor").status == 0, debian.run("sluice", "doctor").said
