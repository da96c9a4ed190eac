# SPDX-License-Identifier: GPL-2.0-or-later
"""Unmodified programs: sluice is loaded and unloaded while they run."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

from lab.guest.devices import FAR, NEAR, Counters, Device, read_counters
from lab.guest.scenarios import Env, scenario
from lab.workloads import applications, qemu
from lab.workloads.tcp import server
from sluice.netlink import Queue
from tests.kernel.scenarios._traffic import case, read_device, read_queue, set_device

STREAMS = 8
# Shorter than the programs' own 500: the streams fill it all the time.
RING = 100
MOVED_PACKETS = 300
# After losses TCP takes its time to fill the ring again.
REFILL_SECONDS = 30.0


@contextlib.contextmanager
def endless_tcp(near: Device, far: Device) -> Iterator[subprocess.Popen]:
    """From near to far, until the context is left, or earlier if the tunnel fails."""
    argv = near.command(
        *("iperf3", "--client", far.address, "--time", "600"),
        *("--parallel", str(STREAMS)),
    )
    client = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        yield client
    finally:
        client.kill()
        client.wait()


class Traffic:
    """TCP streams through a device, which must always make progress."""

    def __init__(self, env: Env, device: Device, far: Device) -> None:
        self._env, self.device = env, device
        self._client = env.enter(endless_tcp(device, far))

    def queue(self) -> Queue:
        return read_queue(self.device)

    def wait_for_an_overflow(self) -> None:
        self._env.wait_for(
            lambda: read_counters(self.device).lost_at_ring,
            "an overflow",
            REFILL_SECONDS,
        )

    def assert_moves(self, when: str) -> Counters:
        """Many more packets are read; the counts afterwards."""
        before = read_counters(self.device).read

        def moved() -> bool:
            assert self._client.poll() is None, f"{when}: the streams broke"
            return read_counters(self.device).read > before + MOVED_PACKETS

        what = f"{when}: {MOVED_PACKETS} packets read"
        self._env.wait_for(moved, what, REFILL_SECONDS)
        return read_counters(self.device)

    def assert_served(self, stops: int) -> None:
        """Its queue is stopped, packets flow, and none is lost, unless the queue stalled
        because the application did not run on a busy host."""
        state = read_device(self.device).state
        assert state == "served", state
        before, stalls = read_counters(self.device), self.queue().stalls
        self._env.wait_for(lambda: self.queue().stops > stops, "stops", REFILL_SECONDS)
        after = self.assert_moves("on")
        lost = after.lost_at_ring - before.lost_at_ring
        assert lost == 0 or self.queue().stalls > stalls, (before, after)


def _is_served_and_released(env: Env, traffic: Traffic) -> None:
    """Load, off, on, unload: the streams never break."""
    traffic.wait_for_an_overflow()
    env.load()
    traffic.assert_served(stops=0)
    set_device(traffic.device, on=0)
    stops = traffic.queue().stops
    traffic.assert_moves("off")
    assert traffic.queue().stops == stops, "stopped while off"
    set_device(traffic.device, on=1)
    traffic.assert_served(stops)
    env.run("rmmod", "sluice")
    assert not os.path.exists("/sys/module/sluice")
    traffic.assert_moves("unloaded")


def _tunnel_is_served_and_released(env: Env, application: str) -> None:
    needs_program(env, application)
    case = applications.Case(application, "tcp_8", rtt_ms=0, ring=RING)
    env.enter(applications.tunnel(case, "stock"))
    env.enter(server())
    _is_served_and_released(env, Traffic(env, NEAR, FAR))


def _guest_is_served_and_released(env: Env, kind: str) -> None:
    needs_program(env, qemu.PROGRAM)
    tap = env.enter(qemu.virtual_machine(kind, ring=RING))
    _is_served_and_released(env, Traffic(env, tap, qemu.INSIDE))


def needs_program(env: Env, program: str) -> None:
    if shutil.which(program) is None:
        env.skip(f"{program}: not in this root; see Kernel.applications")


@scenario(deadline=90)
def running_openvpn_is_served_and_released(env: Env) -> None:
    _tunnel_is_served_and_released(env, "openvpn")


@scenario(deadline=90, often=False)
def running_wireguard_go_is_served_and_released(env: Env) -> None:
    _tunnel_is_served_and_released(env, "wireguard-go")


@scenario(deadline=2 * (qemu.BOOT_SECONDS + 200), often=False)
def running_guests_of_vhost_net_and_qemu_are_served_and_released(env: Env) -> None:
    for kind in ("vhost", "tap"):
        with case(env, kind):
            _guest_is_served_and_released(env, kind)
