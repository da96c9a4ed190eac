# SPDX-License-Identifier: GPL-2.0-or-later
"""Thousands of devices, hundreds of queues: all are served, with little memory."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Callable

from lab.guest.devices import crowd, group_of
from lab.guest.program import SO_SNDBUFFORCE
from lab.guest.scenarios import Env, scenario
from sluice.netlink import DEVICE_GET, Client
from sluice.wire import DUMP_INTR
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._links import veth_pair
from tests.kernel.scenarios._memory import allowed
from tests.kernel.scenarios._requests import Asker
from tests.kernel.scenarios._tap import IFF_MULTI_QUEUE, Tap, tap

QUEUES = 256  # the most a device has
FLOWS = 4096
DEVICE_BYTES = 1024  # what sluice may take for an idle device
QUEUE_BYTES = 512  # and for each queue it could have


def _scales(env: Env) -> Callable[[], int]:
    """A function that reads the bytes of slabs which the kernel allocated for this
    process since; exact to a page per CPU."""
    group = Path("/sys/fs/cgroup/crowd")
    control = group.parent / "cgroup.subtree_control"
    known = group.parent / "cgroup.controllers"
    if not known.exists() or "memory" not in known.read_text().split():
        env.skip("this kernel has no memory cgroups")
    control.write_text("+memory")
    group.mkdir()
    env.defer(group.rmdir)
    me = str(os.getpid())
    env.defer((group.parent / "cgroup.procs").write_text, me)
    (group / "cgroup.procs").write_text(me)

    def weigh() -> int:
        lines = (group / "memory.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["slab_unreclaimable"])

    return weigh


def _enter_and_weigh(env: Env, size: int, flags: int = 0) -> int:
    """Makes so many devices and loads the module; returns the memory it takes."""
    env.enter(crowd(size, flags))
    weigh = _scales(env)
    before = weigh()
    env.load("stall_ms=60000")  # a process may stand still for long
    return weigh() - before


@scenario(deadline=300, on="newest")
def thousand_devices_are_served(env: Env) -> str:
    size = 1000
    taken = _enter_and_weigh(env, size)
    assert 0 < taken / size < allowed(DEVICE_BYTES), f"{taken} bytes for {size} devices"
    net.sink(env, ring=100)
    started = time.monotonic()
    with Client() as client:
        devices, queues = client.devices(), client.queues()
    looked = time.monotonic() - started
    for found in (devices, queues):
        assert len({one.ifindex for one in found}) == len(found) == size + 1
    net.send(300)
    net.assert_flows(env)
    assert net.counters().lost_at_ring == 0
    started = time.monotonic()
    env.run("rmmod", "sluice")
    left = time.monotonic() - started
    net.assert_flows(env)
    env.load()
    return (
        f"{taken / size:.0f} bytes for an idle device, two dumps in {looked:.1f} s, "
        f"unloaded in {left:.1f} s"
    )


@scenario(deadline=120)
def devices_with_many_possible_queues_take_little(env: Env) -> str:
    """The driver allocates 256 queues for a device that may have several."""
    size = 100
    taken = _enter_and_weigh(env, size, IFF_MULTI_QUEUE)
    most = 2 * QUEUES * QUEUE_BYTES  # in one piece: of a power of two
    assert 0 < taken / size < most, f"{taken} bytes for {size} devices"
    return f"{taken / size / QUEUES:.0f} bytes for each of {QUEUES} queues"


@scenario
def memory_of_a_device_is_charged_to_its_maker(env: Env) -> None:
    """As the device itself: the cgroup limits a user who may make many."""
    weigh = _scales(env)

    def charged(size: int) -> int:
        """For a device that could have 256 queues."""
        before = weigh()
        with crowd(size, IFF_MULTI_QUEUE):
            return (weigh() - before) // size

    charged(1)  # fills caches
    stock = charged(50)
    env.load()
    sluice = charged(50)
    assert sluice - stock > QUEUES * 200, (stock, sluice)


@scenario(deadline=240, on="newest-native")
def all_of_256_queues_stop_and_wake_and_unload_leaves_none(env: Env) -> None:
    env.load("stall_ms=60000")  # all are stopped at once, however slow the host
    device = env.enter(tap(queues=QUEUES, ring=8, qdisc="mq"))
    sent = _stop_every_queue(env)
    _assert_none_lost()
    _drain(env, device)
    _assert_none_lost()
    now = net.counters()
    assert device.read_count + now.qdisc_drops == sent, (now, sent)
    net.wait_until_open(env)
    _stop_every_queue(env)
    env.run("rmmod", "sluice")
    _drain(env, device)
    read, lost = device.read_count, net.counters().lost_at_ring
    sent = net.send_over_flows(2 * QUEUES, FLOWS)
    _drain(env, device)
    # Without sluice a full ring of 8 drops.
    dropped = net.counters().lost_at_ring - lost
    assert device.read_count - read + dropped == sent, (read, dropped, sent)


def _count_stopped(client: Client) -> int:
    return sum(queue.state == "stopped" for queue in client.queues())


def _stop_every_queue(env: Env) -> int:
    """Returns how many packets were sent."""
    sent = 0
    with Client() as client:
        while _count_stopped(client) < QUEUES:
            assert sent < 10 * FLOWS, client.queues()
            sent += net.send_over_flows(FLOWS, FLOWS)
    return sent


def _assert_none_lost() -> None:
    """If the host is so slow that queues stall, the message says so."""
    lost = net.counters().lost_at_ring
    assert lost == 0, (lost, f"{sum(q.stalls for q in net.read_queues())} stalls")


def _drain(env: Env, device: Tap) -> None:
    what = "qdiscs and rings empty"
    env.wait_for(lambda: device.is_drained(net.counters), what, seconds=60)


def _busy_seconds() -> float:
    """CPU time since boot, of all CPUs together."""
    up, idle = map(float, Path("/proc/uptime").read_text().split())
    return up * len(os.sched_getaffinity(0)) - idle


def _share_of_a_cpu(seconds: float = 5) -> float:
    """In per cent, of all that runs now."""
    before = _busy_seconds()
    time.sleep(seconds)
    return 100 * (_busy_seconds() - before) / seconds


@scenario(deadline=180, often=False)
def cpu_time_of_reviews_while_nobody_reads(env: Env) -> str:
    """With a longer stall_ms, or each stop would end before it is measured."""
    env.load("stall_ms=60000")
    with tap(queues=QUEUES, ring=8, qdisc="mq"):
        time.sleep(1)
        idle = _share_of_a_cpu()
        _stop_every_queue(env)
        one_device = _share_of_a_cpu()
    with crowd(500), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        env.run("ip", "link", "set", "up", "group", group_of("crowd"))
        # What waits in 500 qdiscs stays charged to this socket.
        sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 28)
        for number in range(500):
            for _ in range(50):
                sender.sendto(bytes(60), (f"crowd{number}", 0))
        with Client() as client:
            stopped = _count_stopped(client)
        assert stopped == 500, stopped
        devices = _share_of_a_cpu()
    return (
        f"of one CPU: {idle:.1f} % idle, {one_device:.1f} % with {QUEUES} stopped queues "
        f"of one device, {devices:.1f} % with 500 devices"
    )


@scenario(deadline=180, on="newest-native")
def dump_misses_no_device_while_others_vanish(env: Env) -> str:
    """Devices vanish that come first in the dump; behind them are many that stay, and
    devices of another kind."""
    env.load()
    with crowd(60, name="early"), crowd(300, name="staying"):
        veth_pair(env)
        child = os.fork()
        if not child:
            for number in range(60):
                subprocess.run(["ip", "link", "del", f"early{number}"], check=False)
                time.sleep(0.05)
            os._exit(0)
        env.defer(os.waitpid, child, 0)
        looks = 0
        with Client() as client:
            while len(found := client.devices()) > 300:
                names = {one.ifname for one in found}
                missing = {f"staying{n}" for n in range(300)} - names
                assert not missing, missing
                looks += 1
            assert len(client.queues()) == 300
    assert looks > 1, f"{looks} looks while devices vanished prove nothing"
    return f"{looks} looks while devices vanished"


@scenario(on="newest-native")
def dump_whose_last_device_vanished_says_so(env: Env) -> str:
    """It begins again, so that its reader asks once more."""
    env.load()
    with Asker() as asker, contextlib.ExitStack() as devices:
        # When the first message is read the next has about 380 devices already.
        devices.enter_context(crowd(800))
        whole = asker.flags_of_dump(DEVICE_GET, int)
        cut = asker.flags_of_dump(DEVICE_GET, devices.close)
    assert len(whole) == 801 and not any(one & DUMP_INTR for one in whole), whole
    assert any(one & DUMP_INTR for one in cut), cut
    return f"{len(cut)} messages of a dump that was cut short"
