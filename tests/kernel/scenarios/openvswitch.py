# SPDX-License-Identifier: GPL-2.0-or-later
"""A tap as a port of Open vSwitch, which takes the qdiscs of its ports for its own.

Only roots with the package have it: see tests/kernel/test_programs.py.
"""

from __future__ import annotations

import shutil

from lab.guest.devices import Device
from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_TAP
from tests.kernel.scenarios._command import CONFIG, SECONDS, needs_click, sluice
from tests.kernel.scenarios._links import assert_full_ring_stops
from tests.kernel.scenarios._tap import Tap

CONTROL = "/usr/share/openvswitch/scripts/ovs-ctl"
PORT = Device("port0", "10.93.0.2", "02:00:00:00:93:02")
NOOP = ("--", "set", "port", PORT.name, "qos=@q")
NOOP += ("--", "--id=@q", "create", "qos", "type=linux-noop")


def _start(env: Env) -> None:
    """Open vSwitch with a bridge, the module, and a tap that is no port yet."""
    if not shutil.which("ovs-vsctl"):
        env.skip("no Open vSwitch: tests/kernel/test_programs.py plays this")
    env.run("modprobe", "openvswitch")
    env.run(CONTROL, "start", "--system-id=random")
    env.defer(env.run, CONTROL, "stop")
    env.run("ovs-vsctl", "add-br", "br0")
    env.defer(env.run, "ovs-vsctl", "del-br", "br0")
    env.load()
    device = Tap(IFF_TAP, PORT.name)
    device.open_queue()
    env.defer(device.close_queue, 0)
    env.run("ip", "link", "set", PORT.name, "up")


def _set_qdisc(env: Env, *qdisc: str) -> None:
    env.run("tc", "qdisc", "replace", "dev", PORT.name, "root", *qdisc)


def _qdisc(env: Env) -> str:
    return env.run("tc", "qdisc", "show", "dev", PORT.name)


def _add_port(env: Env, *more: str) -> None:
    """ovs-vsctl returns once the switch has the port."""
    env.run("ovs-vsctl", "add-port", "br0", PORT.name, *more)


@scenario(deadline=SECONDS, often=False)
def apply_attaches_a_ports_qdisc_with_noop(env: Env) -> None:
    needs_click(env)
    _start(env)
    CONFIG.write_text(f"{PORT.name} on qdisc=cake\n")
    _set_qdisc(env, "noqueue")
    _add_port(env, *NOOP)
    assert "noqueue" in _qdisc(env)
    sluice("apply", PORT.name)
    assert "cake" in _qdisc(env)


@scenario(deadline=SECONDS, often=False)
def full_ring_of_a_port_stops_it(env: Env) -> None:
    _start(env)
    _add_port(env)
    _set_qdisc(env, "fq_codel")
    env.run("ip", "addr", "add", "10.93.0.1/24", "dev", "br0")
    env.run("ip", "link", "set", "br0", "up")
    assert_full_ring_stops(env, PORT, "br0")
