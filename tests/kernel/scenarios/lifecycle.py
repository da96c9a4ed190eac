# SPDX-License-Identifier: GPL-2.0-or-later
"""What can happen to a device while its queue is stopped."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Callable

from lab.guest.devices import HERE, THERE, Reader, add_neighbour, attach, read_counters
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios import _ftrace, _patch
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._frames import FrameFlood, Freed, send_frames
from tests.kernel.scenarios._ftrace import calls_lost, mount_tracefs

FRAMES = 200


def _stopped(env: Env) -> tuple[Reader, Freed]:
    """A sink that does not read, behind a queue that is stopped by FRAMES."""
    env.load("stall_ms=60000")
    freed = Freed(env, required=False)
    reader = net.sink(env, ring=FRAMES // 2, paused=True)
    send_frames(FRAMES)
    assert net.read_queue().state == "stopped"
    return reader, freed


def _assert_conserved_and_flows(
    env: Env, reader: Reader, freed: Freed, sent: int = FRAMES
) -> None:
    """The reader goes on: each frame is read or freed, and the queue is not stuck."""
    reader.resume()
    net.wait_until_empty(env)
    freed.assert_rest_read(sent)
    net.assert_flows(env)


@scenario
def off_leaves_no_stopped_queue(env: Env) -> None:
    reader, freed = _stopped(env)
    net.set_device(on=0)
    assert net.read_queue().state == "idle"
    _assert_conserved_and_flows(env, reader, freed)


@scenario
def unload_leaves_no_stopped_queue(env: Env) -> None:
    reader, freed = _stopped(env)
    env.run("rmmod", "sluice")
    _assert_conserved_and_flows(env, reader, freed)


@scenario
def link_down_and_up_leaves_no_stopped_queue(env: Env) -> None:
    reader, freed = _stopped(env)
    env.run("ip", "link", "set", HERE.name, "down")
    assert net.read_device().state == "down"
    reader.resume()
    env.run("ip", "link", "set", HERE.name, "up")
    add_neighbour(HERE.name, THERE)
    assert net.read_device().state == "served"
    _assert_conserved_and_flows(env, reader, freed)


@scenario
def ring_resize_leaves_no_stopped_queue(env: Env) -> None:
    reader, freed = _stopped(env)
    for length in (1000, 10, 100):
        env.run("ip", "link", "set", HERE.name, "txqueuelen", str(length))
    _assert_conserved_and_flows(env, reader, freed)
    assert net.read_queue().ring == 100


@contextlib.contextmanager
def _pinned_to_last_cpu(env: Env) -> Iterator[Path]:
    """This process runs on the last CPU; its file "online". Both as before at the end."""
    cpus = os.sched_getaffinity(0)
    online = Path(f"/sys/devices/system/cpu/cpu{max(cpus)}/online")
    if not online.exists():
        env.skip("this kernel's CPUs do not go offline")
    os.sched_setaffinity(0, {max(cpus)})
    try:
        yield online
    finally:
        online.write_text("1")
        os.sched_setaffinity(0, cpus)


@scenario
def cpu_of_a_stopped_queue_goes_offline(env: Env) -> None:
    """Its timer was armed there, by the sender, and is moved to another CPU."""
    env.load("stall_ms=60000")
    reader = net.sink(env, ring=100, paused=True)
    with _pinned_to_last_cpu(env) as online:
        net.send(200)
        assert net.read_queue().state == "stopped"
        online.write_text("0")
        assert net.read_queue().state == "stopped"
        reader.resume()
        env.wait_for(lambda: net.read_queue().state == "open", "the queue is open")
    assert net.read_queue().rescued == 0, net.read_queue()
    net.assert_flows(env)
    assert net.counters().lost_at_ring == 0, net.counters()


@scenario
def lost_timer_is_replaced_by_the_backstop(env: Env) -> str:
    env.load()
    net.sink(env, ring=100)
    with net.Flood(senders=1) as senders:
        with calls_lost(env, "timer_expired"):
            env.wait_for(lambda: net.read_queue().rescued > 0, "a rescue", 30)
            senders.wait_for_more(env, 1, "the sender goes on")
        senders.end()
    queue = net.read_queue()
    net.assert_lossless_again(env)
    return f"{queue.rescued} of {queue.stops} stops rescued"


@scenario
def no_timer_is_lost_in_normal_use(env: Env) -> None:
    env.load()
    reader = net.sink(env, ring=100)
    reader.slow_down()
    with net.Flood(senders=2) as senders:
        net.wait_for_stops(env, reader, more_than=50)
        senders.end()
    # On a busy host a virtual CPU may stand still for a second.
    assert net.read_queue().rescued <= 1, net.read_queue()


@scenario
def qdisc_replacement_leaves_no_stopped_queue(env: Env) -> None:
    reader, freed = _stopped(env)
    net.set_qdisc(env, "noqueue")
    env.wait_for(lambda: net.read_queue().state == "noqueue", "the wake")
    _assert_conserved_and_flows(env, reader, freed)
    net.set_qdisc(env, "pfifo_fast")
    net.assert_flows(env)


def _changes_under_traffic(
    env: Env, change: Callable[[str], object], values: Sequence[str]
) -> None:
    """Each frame is read or freed, and the queue is not stuck."""
    env.load()
    freed = Freed(env)
    reader = net.sink(env, ring=100)
    with FrameFlood() as senders:
        net.wait_for_stops(env, reader, more_than=5)
        for value in values:
            change(value)
            senders.wait_for_more(env, 500, f"traffic at {value}")
        sent = senders.end()
    reader.resume()  # at full pace
    net.wait_until_empty(env)
    freed.assert_rest_read(sent)
    net.assert_flows(env)


@scenario(deadline=120)
def qdiscs_change_under_traffic(env: Env) -> None:
    kinds = ("fq", "noqueue", "pfifo", "cake", "noqueue", "fq_codel")
    _changes_under_traffic(env, lambda kind: net.set_qdisc(env, kind), kinds)


@scenario(deadline=120)
def sizes_change_under_traffic(env: Env) -> None:
    resize = ("ip", "link", "set", HERE.name, "txqueuelen")
    sizes = ("1", "2", "16", "500", "10000", "33", "100")
    _changes_under_traffic(env, lambda size: env.run(*resize, size), sizes)


@scenario(deadline=120)
def switching_under_traffic_leaves_no_stopped_queue(env: Env) -> None:
    env.load()
    freed = Freed(env)
    reader = net.sink(env, ring=100)
    with FrameFlood() as senders:
        for turn in range(20):
            net.set_device(on=turn % 2)
        net.set_device(stall_ms=60000)  # a stop lasts until the switch
        for _ in range(5):
            reader.pause()
            env.wait_for(lambda: net.read_queue().state == "stopped", "the stop")
            net.set_device(on=0)
            reader.resume()
            net.set_device(on=1)
        senders.wait_for_more(env, 500, "traffic goes on")
        sent = senders.end()
    net.wait_until_empty(env)
    freed.assert_rest_read(sent)
    net.assert_flows(env)


@scenario
def netns_move_leaves_no_stopped_queue(env: Env) -> None:
    reader, _ = _stopped(env)
    env.run("ip", "netns", "add", "elsewhere")
    env.defer(env.run, "ip", "netns", "del", "elsewhere")
    env.run("ip", "link", "set", HERE.name, "netns", "elsewhere")
    there = replace(HERE, netns="elsewhere")
    attach(there, THERE)
    reader.resume()
    before = read_counters(there)
    often = ("-c", "20", "-i", "0.01", "-w", "10")  # until 20 answers, or 10 s are over
    said = env.run(*there.command("ping", *often, THERE.address))
    assert " 20 received" in said, said
    assert read_counters(there).read >= before.read + 20


@scenario
def loading_and_unloading_under_traffic_loses_nothing(env: Env) -> None:
    """The ring drops packets only while sluice is not loaded; each one is counted."""
    reader = net.sink(env, ring=100)
    with net.Flood(senders=2) as senders:
        for _ in range(3):
            env.load()
            net.wait_for_stops(env, reader, more_than=5)
            lost = net.counters().lost_at_ring
            net.wait_for_stops(env, reader, more_than=net.read_queue().stops + 20)
            # After a stall, on a busy host, the ring may drop.
            now = net.counters()
            assert now.lost_at_ring == lost or net.read_queue().stalls, now
            env.run("rmmod", "sluice")
            senders.wait_for_more(env, 500, "traffic goes on")
        sent = senders.end()
    net.wait_until_empty(env)
    now = net.counters()
    read = reader.end()[0]["read"]
    assert read + now.qdisc_drops + now.lost_at_ring == sent, (read, now, sent)


@scenario(deadline=400, often=False)
def live_patch_comes_and_goes_under_traffic(env: Env) -> None:
    """A live patch of the hooked function drops all packets; no queue stays stopped.

    6.12 finishes no live patch while senders keep a CPU busy all the time, with or
    without sluice.
    """
    if not _patch.ALL.exists():
        env.skip("this kernel has no live patching")
    for direct in range(1 + _patch.shares(env)):
        how = f"direct_call={direct}"
        env.load(how)
        reader = net.sink(env, ring=100)
        with net.Flood(senders=2, rest=0.02) as senders:
            net.wait_for_stops(env, reader)
            with _patch.patched(env):
                before = net.counters().read
                senders.wait_for_more(env, 500, "traffic goes on")
                assert net.counters().read <= before + 100, "the patch is not in place"
            senders.wait_for_more(env, 500, "traffic goes on")
            with _patch.patched(env):
                env.run("rmmod", "sluice")
            env.load(how)
            net.wait_for_stops(env, reader)
            senders.end()
        net.assert_flows(env)
        env.clean_up()


def _load_called_directly(env: Env) -> None:
    """With a device that is read; skips unless the hook is a direct call."""
    mount_tracefs()
    env.load()
    net.sink(env, ring=100)
    assert _ftrace.read_hook(), "no hook"
    if not _ftrace.settles_on_direct_call(env):
        env.skip("no direct call on this kernel")


@scenario(deadline=300)
def direct_call_and_live_patch_exclude_each_other(env: Env) -> None:
    """The second one is refused or uses a callback; packets flow."""
    if _patch.shares(env):
        env.skip("this kernel has room for both")
    _load_called_directly(env)
    try:
        _patch.insert(env)
    except _patch.Refused:
        net.assert_flows(env)
    else:
        raise AssertionError("patched beside a direct call")
    env.run("rmmod", "sluice")
    assert not _ftrace.read_hook()
    with _patch.patched(env):
        env.load()
        assert not _ftrace.settles_on_direct_call(env)
    assert _ftrace.read_hook()
    net.assert_flows(env)


@scenario(deadline=300)
def direct_call_leads_to_a_live_patch(env: Env) -> None:
    """In either order: sluice is called, and then the patched function."""
    if not _patch.shares(env):
        env.skip("this kernel has no room for both")
    if not _patch.ALL.exists():
        env.skip("this kernel has no live patching")
    _load_called_directly(env)
    with _patch.patched(env):
        assert _ftrace.DIRECT in _ftrace.read_hook()
        before = net.counters()
        net.send(50)
        assert net.counters().read == before.read, "the patch is not in place"
        env.run("rmmod", "sluice")
        assert _ftrace.DIRECT not in _ftrace.read_hook()
        env.load()
        assert _ftrace.settles_on_direct_call(env)
        net.send(50)
        assert net.counters().read == before.read, "the patch is out of place"
    net.assert_flows(env)
    assert _ftrace.DIRECT in _ftrace.read_hook()
