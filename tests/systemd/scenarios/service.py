# SPDX-License-Identifier: GPL-2.0-or-later
"""The units and the udev rule, where systemd is the first process."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from lab.guest.devices import HERE
from lab.guest.scenarios import Env, scenario
from sluice.netlink import Client
from tests.kernel.scenarios._tap import tap
from tests.kernel.scenarios._traffic import read_device, set_qdisc
from tests.systemd.scenarios._machine import container, read_state

CONFIG = Path("/etc/sluice.conf")
MODULES = Path("/lib/modules", os.uname().release)
SECONDS = 480

def install(env: Env, rules: str) -> None:
    """What the packages install, without DKMS; gone at the end."""
    folder = MODULES / "updates"
    folder.mkdir(exist_ok=True)
    shutil.copy("/out/sluice.ko", folder)
    env.run("depmod")
    paths = {"DESTDIR": "/", "PREFIX": "/usr", "CONF": "/usr/lib"}
    words = [f"{name}={value}" for name, value in paths.items()]
    env.run("env", *words, "/sluice/packaging/install", "module", "command")
    CONFIG.write_text(rules)
    env.run("systemctl", "daemon-reload")
    env.run("udevadm", "control", "--reload")

    def remove() -> None:
        for unit in ("sluice-follow", "sluice"):
            subprocess.run(["systemctl", "disable", "--now", unit])
        if Path("/sys/module/sluice").exists():
            env.run("rmmod", "sluice")
        subprocess.run(["systemctl", "reset-failed"])
        CONFIG.unlink()

    env.defer(remove)


def has_rules(count: int) -> bool:
    try:
        with Client() as client:
            return len(client.rules()) == count
    except LookupError:
        return False


@scenario(deadline=SECONDS)
def service_serves_host_and_containers_before_and_after(env: Env) -> None:
    install(env, "tun* off\nhere* on stall-ms=900\n")
    before = env.enter(container())
    env.run("systemctl", "enable", "--now", "sluice")
    assert env.run("systemctl", "is-active", "sluice") == "active\n"
    assert not before.is_on(), "a container that was there before"
    after = env.enter(container())
    assert not after.is_on(), "a container that came after"
    env.enter(tap())
    found = read_device()
    assert (found.on, found.stall_ms) == (True, 900), found
    assert found.rule == f"{CONFIG}:2", found
    assert read_state() == "running", env.run("systemctl", "--failed")


@scenario(deadline=SECONDS)
def wrong_line_fails_the_service_and_changes_nothing(env: Env) -> None:
    install(env, "here* off\n")
    env.run("systemctl", "start", "sluice")
    CONFIG.write_text("here* of\n")
    done = subprocess.run(["systemctl", "reload", "sluice"])
    assert done.returncode, "a wrong line was accepted"
    said = env.run("journalctl", "-u", "sluice", "--no-pager")
    assert f"{CONFIG}:1: on or off is missing" in said, said
    assert has_rules(1)
    CONFIG.write_text("here* off\nvpn* off\n")
    env.run("systemctl", "reload-or-restart", "sluice")
    assert has_rules(2)


@scenario(deadline=SECONDS)
def boot_without_the_module_is_not_degraded(env: Env) -> None:
    install(env, "here* off\n")
    (MODULES / "updates/sluice.ko").unlink()
    env.run("depmod")
    env.run("systemctl", "enable", "--now", "sluice")
    said = env.run("journalctl", "-u", "sluice", "--no-pager")
    assert "devices behave as without sluice" in said, said
    assert read_state() == "running", env.run("systemctl", "--failed")


def has_qdisc(env: Env) -> bool:
    return "fq_codel" in env.run("tc", "qdisc", "show", "dev", HERE.name)


@scenario(deadline=2 * SECONDS)
def module_that_is_loaded_after_the_boot_is_followed(env: Env) -> None:
    install(env, "here* on qdisc=fq_codel\n")
    (MODULES / "updates/sluice.ko").unlink()
    env.run("depmod")
    env.run("systemctl", "enable", "--now", "sluice", "sluice-follow")
    env.enter(tap(qdisc="pfifo"))
    set_qdisc(env, "noqueue")
    assert env.run("systemctl", "is-active", "sluice-follow") == "active\n"
    shutil.copy("/out/sluice.ko", MODULES / "updates")
    env.run("depmod")
    env.run("/usr/lib/sluice/module", "load")
    env.wait_for(lambda: has_qdisc(env), "the rule's qdisc is there", seconds=60)
    assert read_state() == "running", env.run("systemctl", "--failed")
