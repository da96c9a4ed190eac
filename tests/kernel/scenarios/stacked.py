# SPDX-License-Identifier: GPL-2.0-or-later
"""Other devices in front of a tun or tap: what they hand on is not lost at the ring."""

from __future__ import annotations

import functools
import operator
from dataclasses import replace

from lab.guest import devices
from lab.guest.devices import reader as open_reader
from lab.guest.devices import sink as open_sink
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._frames import send_frames
from tests.kernel.scenarios._links import ENTRY, SOURCE, add_link, veth_pair

FRAMES = 2000
# Taps as ports of a bond, and how many microseconds a packet takes their readers.
PORTS = {
    devices.Device("fast0", "", "02:00:00:00:95:01"): 1000,
    devices.Device("slow0", "", "02:00:00:00:95:02"): 4000,
}


def _add_link(env: Env, name: str, kind: str, *options: str) -> None:
    """A device of this kind, until the scenario's end."""
    add_link(name, kind, *options)
    env.defer(env.run, "ip", "link", "del", name)


def _redirect_veth(env: Env) -> None:
    """What ENTRY receives goes to HERE, by tc's action mirred."""
    veth_pair(env)
    rule = "ingress matchall action mirred egress redirect dev"
    try:
        env.run("tc", "qdisc", "add", "dev", ENTRY, "clsact")
        env.run("tc", "filter", "add", "dev", ENTRY, *rule.split(), devices.HERE.name)
    except AssertionError as error:
        env.skip(f"this kernel has no clsact, matchall or mirred: {error}")


@scenario(on="newest")
def redirect_from_a_veth_loses_nothing(env: Env) -> str:
    """No socket waits there: what the ring has no room for waits in the qdisc."""
    env.load("stall_ms=60000")
    reader = net.sink(env, ring=100, paused=True, qdisc=f"pfifo limit {FRAMES}")
    _redirect_veth(env)
    net.set_device(on=0)
    send_frames(FRAMES, SOURCE)
    env.wait_for(lambda: net.counters().lost_at_ring == FRAMES - 100, "stock's losses")
    reader.resume()
    before = net.wait_until_read(env, FRAMES)
    reader.pause()
    net.set_device(on=1)
    send_frames(FRAMES // 2, SOURCE)
    assert net.read_queue().state == "stopped", net.read_queue()
    reader.resume()
    send_frames(FRAMES // 2, SOURCE)  # beside the reader
    now = net.wait_until_read(env, 2 * FRAMES)
    assert now.lost_at_ring == before.lost_at_ring, (before, now)
    assert now.read - before.read + now.qdisc_drops == FRAMES, (before, now)
    return f"stock lost {before.lost_at_ring} of {FRAMES} frames, sluice none"


@scenario(on="newest")
def bond_over_two_taps_loses_nothing(env: Env) -> str:
    """One blocking socket, and a bond that gives its ports a packet in turn; one reads
    four times as fast as the other."""
    env.load("stall_ms=60000")
    devices.silence_first_netns()
    _add_link(env, "bond0", "bond", "mode", "balance-rr")
    for port, link_us in PORTS.items():
        options = ("--link-us", str(link_us))
        helper = env.helper("reader")
        env.enter(open_reader(helper, "sink", (port,), "sluice", options))
        env.run("ip", "link", "set", port.name, "txqueuelen", "100", "master", "bond0")
        env.run("tc", "qdisc", "replace", "dev", port.name, "root", "fq_codel")
    devices.attach(replace(devices.HERE, name="bond0"), devices.THERE, qdisc="noqueue")

    def stopped() -> bool:
        return all(net.read_queues(port)[0].stops > 5 for port in PORTS)

    with net.Flood(senders=1) as senders:
        env.wait_for(stopped, "both queues are stopped again and again", 30)
        sent = senders.end()
    for port in PORTS:
        net.wait_until_empty(env, port)
    now = functools.reduce(operator.add, map(devices.read_counters, PORTS))
    assert now.lost_at_ring == 0 and net.gone(now) == sent, (now, sent)
    read = ", ".join(f"{port.name} {devices.read_counters(port).read}" for port in PORTS)
    return f"of {sent} packets read: {read}"


@scenario(on="newest")
def vxlan_over_a_tun_loses_nothing(env: Env) -> None:
    """The tunnel of another layer, as cluster networks put it into a VPN."""
    env.load("stall_ms=60000")
    here = replace(devices.HERE, address="10.94.0.1", mac="")
    reader = env.enter(open_sink(env.helper("reader"), "sluice", ring=100, here=here))
    ends = ("local", here.address, "remote", "10.94.0.2")
    _add_link(env, "vxlan0", "vxlan", "id", "1", "dstport", "4789", *ends)
    devices.attach(replace(devices.HERE, name="vxlan0"), devices.THERE, qdisc="noqueue")
    net.assert_flood_loses_nothing(env, reader, senders=3)
