# SPDX-License-Identifier: GPL-2.0-or-later
"""What the module tells without having been asked."""

from __future__ import annotations

import subprocess
import sys
import time

from lab.scenarios import Env, scenario
from lab.workloads.devices import HERE
from sluice.netlink import Event, Listener
from tests.kernel.scenarios._tap import tap
from tests.kernel.scenarios._traffic import ifindex, read_queue, send, sink

RING = 50


def _collect(listener: Listener, seconds: float) -> list[Event]:
    """All that is told in so long."""
    events, until = [], time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        events += listener.read(left)
    return events


@scenario
def first_stop_and_stall_are_told(env: Env) -> None:
    env.load("stall_ms=300")
    sink(env, ring=RING, paused=True)
    listener = env.enter(Listener())
    send(2 * RING)
    env.wait_for(lambda: read_queue().state == "stalled", "the stall")
    stop, stall = _collect(listener, 1)
    where = (ifindex(), HERE.name, 0)
    assert (stop.ifindex, stop.ifname, stop.queue) == where, stop
    assert (stop.kind, stop.count, stop.ring) == ("stop", 1, RING), stop
    assert (stall.kind, stall.count, stall.ring) == ("stall", 1, RING), stall
    assert 0 < stop.fill <= RING, stop


def _stall(env: Env, listener_of: object) -> None:
    """One more stall: the dead reader takes one packet and dies again."""
    device, before = listener_of, read_queue().stalls
    device.read(0, 1)
    send(3)
    env.wait_for(lambda: read_queue().stalls > before, "one more stall")


@scenario
def stalls_are_counted_when_they_are_not_told(env: Env) -> None:
    """Far more stalls than messages may tell: each is in one message."""
    env.load("stall_ms=1")
    device = env.enter(tap(ring=RING))
    send(2 * RING)
    env.wait_for(lambda: read_queue().stalls, "the first stall")
    listener = env.enter(Listener())
    _collect(listener, 1.5)
    started, before = time.monotonic(), read_queue().stalls
    while time.monotonic() - started < 3:
        _stall(env, device)
    events = _collect(listener, 2)
    seconds = time.monotonic() - started
    news = read_queue().stalls - before
    assert news >= 10, f"{news} stalls prove nothing"
    assert {event.kind for event in events} == {"stall"}, events
    assert sum(event.count for event in events) == news, (events, news)
    assert 2 <= len(events) <= seconds + 1, (len(events), seconds)


@scenario
def unload_with_an_untold_event(env: Env) -> None:
    """A message that is due is dropped with its device and its module."""
    for vanish in (False, True):
        env.load("stall_ms=1")
        with tap(ring=RING):
            send(2 * RING)
            if not vanish:
                env.run("rmmod", "sluice")
        if vanish:
            env.run("rmmod", "sluice")


ELSEWHERE = """
from sluice.netlink import Listener
with Listener() as listener:
    print("listening", flush=True)
    print(listener.read(3))
"""


@scenario
def events_stay_in_their_namespace(env: Env) -> None:
    env.load("stall_ms=100")
    sink(env, ring=RING, paused=True)
    env.run("ip", "netns", "add", "elsewhere")
    env.defer(env.run, "ip", "netns", "del", "elsewhere")
    command = ["ip", "netns", "exec", "elsewhere", sys.executable, "-c", ELSEWHERE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "listening\n"
        with Listener() as listener:
            send(2 * RING)
            assert listener.read(3), "nothing is told here"
        assert other.communicate()[0] == "[]\n"
