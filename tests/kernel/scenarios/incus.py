# SPDX-License-Identifier: GPL-2.0-or-later
"""The tap that Incus makes for a virtual machine.

Only roots with the packages have it: see tests/kernel/test_incus.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.guest.devices import Device
from lab.guest.program import succeeds
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._bridge import assert_full_ring_stops
from tests.kernel.scenarios._traffic import read_device

SECONDS = 900
DAEMON = "/usr/libexec/incus/incusd"
LOG = Path("/tmp/incusd.log")
BRIDGE = "br0"
MAC = "02:00:00:00:96:02"
# Incus asks for KVM; the emulator is enough for a tap. The guest is its firmware.
QEMU = Path("/usr/local/bin/qemu-system-x86_64")
EMULATING = """\
#!/bin/bash
arguments=()
while [ $# -gt 0 ]; do
	case $1 in
	-accel) arguments+=("$1" tcg) && shift ;;
	-cpu) arguments+=("$1" qemu64) && shift ;;
	-readconfig) sed -i 's/accel = "kvm"/accel = "tcg"/' "$2" && arguments+=("$1") ;;
	*) arguments+=("$1") ;;
	esac
	shift
done
exec /usr/bin/qemu-system-x86_64 "${arguments[@]}"
"""
POOL_AND_PROFILE = """\
storage_pools: [{name: default, driver: dir}]
profiles:
- name: default
  devices: {root: {type: disk, path: /, pool: default, size: 64MiB}}
"""


@contextlib.contextmanager
def _daemon(env: Env) -> Iterator[None]:
    with open(LOG, "w") as log:
        process = subprocess.Popen([DAEMON, "--debug"], stdout=log, stderr=log)
    try:
        env.wait_for(
            lambda: succeeds([DAEMON, "waitready", "--timeout", "5"]),
            "incusd is ready",
            seconds=240,
        )
        yield
    except BaseException:
        print("\n".join(LOG.read_text().splitlines()[-60:]), flush=True)
        raise
    finally:
        process.terminate()
        process.wait()


def _start(env: Env) -> None:
    if not os.path.exists(DAEMON):
        env.skip("no Incus: tests/kernel/test_incus.py plays this")
    QEMU.write_text(EMULATING)
    QEMU.chmod(0o755)
    env.defer(QEMU.unlink)
    kvm = Path("/dev/kvm")
    if not kvm.exists():
        env.run("mknod", str(kvm), "c", "1", "3")
        env.defer(kvm.unlink)
    env.run("modprobe", "-a", "vhost_vsock", "vhost_net")
    # Incus gives QEMU five seconds for its first answer: its files are read before.
    env.run(str(QEMU), "-machine", "q35", "-device", "help")
    env.run("ip", "link", "add", BRIDGE, "type", "bridge")
    env.defer(env.run, "ip", "link", "del", BRIDGE)
    env.run("ip", "addr", "add", "10.96.0.1/24", "dev", BRIDGE)
    env.run("ip", "link", "set", BRIDGE, "up")
    env.load()
    env.enter(_daemon(env))
    preseed = ["incus", "admin", "init", "--preseed"]
    subprocess.run(preseed, input=POOL_AND_PROFILE, text=True, check=True)


@contextlib.contextmanager
def _guest(env: Env) -> Iterator[str]:
    """The name of its tap."""
    settings = ("-c", "security.secureboot=false", "-c", "limits.memory=64MiB")
    env.run("incus", "init", "guest", "--empty", "--vm", *settings)
    card = ("nictype=bridged", f"parent={BRIDGE}", f"hwaddr={MAC}")
    env.run("incus", "config", "device", "add", "guest", "eth0", "nic", *card)
    env.run("incus", "start", "guest")
    try:
        (port,) = json.loads(env.run("ip", "-j", "link", "show", "master", BRIDGE))
        yield port["ifname"]
    finally:
        env.run("incus", "stop", "--force", "guest")


@scenario(deadline=SECONDS, often=False)
def tap_has_a_qdisc_that_queues_and_a_full_ring_stops_it(env: Env) -> None:
    """The kernel's default, or htb where the card has a limit."""
    _start(env)
    tap = env.enter(_guest(env))
    qdiscs = env.run("tc", "qdisc", "show", "dev", tap)
    assert "mq" in qdiscs and "fq_codel" in qdiscs and "noqueue" not in qdiscs, qdiscs
    guest = Device(tap, "10.96.0.2", MAC)
    assert_full_ring_stops(env, guest, BRIDGE)
    env.run("incus", "config", "device", "set", "guest", "eth0", "limits.ingress=10Mbit")
    assert "htb" in env.run("tc", "qdisc", "show", "dev", tap)
    assert read_device(guest).state == "served"
