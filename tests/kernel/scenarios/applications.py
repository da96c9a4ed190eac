# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that know nothing of sluice: served while they run, and let go."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from typing import Any, Callable, Iterator

from lab.scenarios import Env, scenario
from lab.workloads import applications
from lab.workloads.devices import FAR, HERE, IFF_BACKPRESSURE, NEAR, Counters
from lab.workloads.devices import read_counters, read_has_backpressure
from lab.workloads.program import read_backpressure
from lab.workloads.tcp import server
from sluice import system
from sluice.netlink import Client, Device, Queue
from tests.kernel.scenarios._tap import IFF_MULTI_QUEUE, IFF_TUN, Tap

STREAMS = 8
# Shorter than the programs' own 500: the streams fill it all the time.
RING = 100
MOVED_PACKETS = 300
# After losses TCP takes its time to fill the ring again.
REFILL_SECONDS = 30.0


@contextlib.contextmanager
def endless_tcp() -> Iterator[subprocess.Popen]:
    """From NEAR to FAR; it ends by itself only when the tunnel breaks it."""
    argv = NEAR.command(
        *("iperf3", "--client", FAR.address, "--time", "600"),
        *("--parallel", str(STREAMS)),
    )
    with server():
        client = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        try:
            yield client
        finally:
            client.kill()
            client.wait()


def ask(question: Callable[[Client, int], Any]) -> Any:
    """The module's answer about NEAR, in NEAR's namespace."""
    with system.netns(str(NEAR.netns)), Client() as client:
        return question(client, socket.if_nametoindex(NEAR.name))


def near_device() -> Device:
    return ask(lambda client, index: client.device(index))


def near_queue() -> Queue:
    return ask(lambda client, index: client.queues(index)[0])


def switch(on: bool) -> None:
    ask(lambda client, index: client.set_device(index, on=int(on)))


class Traffic:
    """The streams through the tunnel, which must never stand still."""

    def __init__(self, env: Env, client: subprocess.Popen) -> None:
        self._env, self._client = env, client

    def assert_moves(self, when: str) -> Counters:
        """Many more packets are read; the counts afterwards."""
        before = read_counters(NEAR).read

        def moved() -> bool:
            assert self._client.poll() is None, f"{when}: the streams broke"
            return read_counters(NEAR).read > before + MOVED_PACKETS

        self._env.wait_for(moved, f"{when}: {MOVED_PACKETS} packets read")
        return read_counters(NEAR)


def _is_served(env: Env, traffic: Traffic, stops: int) -> None:
    """Its counters move, and nothing is lost while they do."""
    assert near_device().state == "served", near_device()
    before = read_counters(NEAR)
    env.wait_for(lambda: near_queue().stops > stops, "stops", REFILL_SECONDS)
    after = traffic.assert_moves("on")
    assert after.lost_at_ring == before.lost_at_ring, (before, after)


def _is_served_and_let_go(env: Env, application: str) -> None:
    """Load, off, on, unload: the streams never break."""
    module = applications.APPLICATIONS[application]
    if shutil.which(module.PROGRAM) is None:
        env.skip(f"{module.PROGRAM}: not in this root; see Kernel.applications")
    env.enter(applications.tunnel(application, 0, None, f"stock-{RING}", env))
    traffic = Traffic(env, env.enter(endless_tcp()))
    env.wait_for(
        lambda: read_counters(NEAR).lost_at_ring, "an overflow", REFILL_SECONDS
    )
    env.load("stall_ms=60000")
    _is_served(env, traffic, stops=0)
    switch(on=False)
    stops = near_queue().stops
    traffic.assert_moves("off")
    assert near_queue().stops == stops, "stopped while off"
    switch(on=True)
    _is_served(env, traffic, stops)
    env.run("rmmod", "sluice")
    assert not os.path.exists("/sys/module/sluice")
    traffic.assert_moves("unloaded")


@scenario(deadline=90)
def running_openvpn_is_served_and_let_go(env: Env) -> None:
    _is_served_and_let_go(env, "openvpn")


@scenario(deadline=90, often=False)
def running_wireguard_go_is_served_and_let_go(env: Env) -> None:
    _is_served_and_let_go(env, "wireguard-go")


@scenario(deadline=90, often=False)
def running_tinc_is_served_and_let_go(env: Env) -> None:
    _is_served_and_let_go(env, "tinc")


def _tun(flags: int) -> Tap:
    """HERE as a program opens it that asks for these flags."""
    tun = Tap(IFF_TUN | flags)
    tun.open_queue()
    return tun


@scenario
def upstream_flag_cannot_be_prepared_for_a_program(env: Env) -> None:
    """Why upstream needs changed programs: opening a device sets its flags."""
    if not read_has_backpressure():
        env.skip("this kernel has no IFF_BACKPRESSURE")
    maker = _tun(IFF_BACKPRESSURE)
    maker.set_persistent(True)
    maker.close_queue(0)
    assert read_backpressure(HERE), "the flag was not set"
    program = _tun(0)
    env.defer(program.close_queue, 0)
    env.defer(program.set_persistent, False)
    assert not read_backpressure(HERE), "the flag outlived its opener"


@scenario
def upstream_flag_stays_while_another_queue_is_held(env: Env) -> None:
    """The exception: a program that asks for several queues."""
    if not read_has_backpressure():
        env.skip("this kernel has no IFF_BACKPRESSURE")
    holder = _tun(IFF_MULTI_QUEUE | IFF_BACKPRESSURE)
    env.defer(holder.close_queue, 0)
    holder.set_attached(0, False)
    program = _tun(IFF_MULTI_QUEUE)
    env.defer(program.close_queue, 0)
    assert read_backpressure(HERE), "the flag was cleared"
