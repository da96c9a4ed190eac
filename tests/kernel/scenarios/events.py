# SPDX-License-Identifier: GPL-2.0-or-later
"""Events that the module sends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Callable

from lab.guest.devices import HERE, silence_first_netns
from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_TAP
from sluice.netlink import Event, Listener
from tests.kernel.scenarios._tap import IFF_MULTI_QUEUE, Tap, stall_again, tap
from tests.kernel.scenarios._traffic import ifindex, read_queue, send, sink

RING = 50
ENOUGH = 10  # stalls, far more than messages in the same time


def _collect(listener: Listener, seconds: float) -> list[Event]:
    """All events within so many seconds."""
    events, until = [], time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        events += listener.read(left)
    return events


def _collect_until(
    env: Env, listener: Listener, enough: Callable[[list[Event]], bool], what: str
) -> list[Event]:
    told: list[Event] = []

    def read() -> bool:
        told.extend(listener.read(0.1))
        return enough(told)

    env.wait_for(read, what)
    return told


@scenario
def first_stop_and_stall_are_reported(env: Env) -> None:
    env.load("stall_ms=300")
    sink(env, ring=RING, paused=True)
    listener = env.enter(Listener())
    send(2 * RING)
    env.wait_for(lambda: read_queue().state == "stalled", "the stall")
    told = _collect_until(env, listener, lambda told: len(told) >= 2, "two events")
    stop, stall, *more = told + _collect(listener, 0.5)
    assert not more, more
    where = (ifindex(), HERE.name, 0)
    assert (stop.ifindex, stop.ifname, stop.queue) == where, stop
    assert (stop.kind, stop.count, stop.ring) == ("stop", 1, RING), stop
    assert (stall.kind, stall.count, stall.ring) == ("stall", 1, RING), stall
    assert 0 < stop.fill <= RING, stop


@scenario(on="newest-native")
def stalls_are_counted_when_they_are_not_reported(env: Env) -> None:
    """More stalls than messages are allowed: each stall is counted in one message."""
    env.load("stall_ms=1")
    device = env.enter(tap(ring=RING))
    send(2 * RING)
    env.wait_for(lambda: read_queue().stalls, "the first stall")
    listener = env.enter(Listener())
    _collect(listener, 1.5)
    started, before = time.monotonic(), read_queue().stalls
    while time.monotonic() - started < 3 or read_queue().stalls < before + ENOUGH:
        stall_again(env, device)
    news = read_queue().stalls - before

    def are_all(told: list[Event]) -> bool:
        return sum(event.count for event in told) >= news

    events = _collect_until(env, listener, are_all, "the last message")
    seconds = time.monotonic() - started
    events += _collect(listener, 2)
    assert {event.kind for event in events} == {"stall"}, events
    assert sum(event.count for event in events) == news, (events, news)
    assert 2 <= len(events) <= seconds + 1, (len(events), seconds)


def _wait_until_a_stall_is_due(env: Env, device: Tap, listener: Listener) -> None:
    """Until the module counted more stalls than it reported: it reports one a second."""
    reported = 0

    def due() -> bool:
        nonlocal reported
        stall_again(env, device)
        heard = listener.read(0)
        reported += sum(event.count for event in heard if event.kind == "stall")
        return 0 < reported < read_queue().stalls

    env.wait_for(due, "a stall that was not reported")


@scenario
def unload_with_an_event_not_yet_sent(env: Env) -> None:
    """A message that is due is dropped with its device, and with its module."""
    for vanish in (False, True):
        env.load("stall_ms=20")
        with tap(ring=RING) as device, Listener() as listener:
            send(2 * RING)
            env.wait_for(lambda: read_queue().stalls, "the first stall")
            _wait_until_a_stall_is_due(env, device, listener)
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


@scenario(on="newest-native")
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
            assert listener.read(3), "no event in the own namespace"
        assert other.communicate()[0] == "[]\n"


class Wire:
    """Sends frames to a device, over so many flows that every queue gets some."""

    def __init__(self, name: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._socket.bind((name, 0))
        self._port = 0

    def send(self, packets: int) -> None:
        addresses = b"\2\0\0\0\x95\2" + b"\2\0\0\0\x95\1"
        ip = bytes.fromhex("4500002000000000401100000a5f00010a5f0002")
        for _ in range(packets):
            self._port = (self._port + 7919) % 60000
            udp = struct.pack(">4H", self._port, 9, 12, 0) + b"wire"
            with contextlib.suppress(OSError):  # the qdisc is full
                frame = addresses + b"\x08\0" + ip + udp
                self._socket.send(frame, socket.MSG_DONTWAIT)


def _open_tap(env: Env, name: str, queues: int) -> Tap:
    many = IFF_MULTI_QUEUE if queues > 1 else 0
    device = Tap(IFF_TAP | many, name)
    for _ in range(queues):
        device.open_queue()
    env.run("ip", "link", "set", name, "txqueuelen", "8", "up")
    return device


def _stall_again_and_again(storm: Sequence[Tap]) -> None:
    """In a process of its own: every queue stalls several times a second."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # with its parent
    wires = [Wire(device.name) for device in storm]
    while True:
        for device, wire in zip(storm, wires):
            wire.send(4 * len(device.queues))
            for place in range(len(device.queues)):
                device.read(place)


@scenario(deadline=120, on="newest")
def others_stalls_do_not_silence_a_device(env: Env) -> str:
    """More events are due than messages are allowed: each device gets its turn."""
    files = (4096, 4096)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    silence_first_netns()
    env.load("stall_ms=1")
    # Four messages of a device in a tenth of a second, 32 of all.
    storm = [_open_tap(env, f"storm{number}", 64) for number in range(12)]
    quiet = [_open_tap(env, f"quiet{number}", 1) for number in range(6)]
    names = {device.name for device in quiet}
    listener = env.enter(Listener())
    child = os.fork()
    if not child:
        _stall_again_and_again(storm)
    env.defer(os.waitpid, child, 0)
    env.defer(os.kill, child, signal.SIGKILL)
    _collect(listener, 4)
    told = len(_collect(listener, 3)) / 3
    if told < 250:
        env.skip(f"a faster machine: {told:.0f} messages a second keep nobody waiting")
    for device in quiet:
        Wire(device.name).send(30)
    started, heard = time.monotonic(), set()
    while heard != names and time.monotonic() < started + 10:
        events = [event for event in listener.read(1) if event.kind == "stall"]
        heard |= {event.ifname for event in events} & names
    assert heard == names, f"{names - heard} not heard in 10 s"
    return f"heard after {time.monotonic() - started:.1f} s beside {told:.0f} a second"
