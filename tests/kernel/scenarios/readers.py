# SPDX-License-Identifier: GPL-2.0-or-later
"""Each way to read a tun or tap: nothing is lost at the ring."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lab.guest import devices
from lab.guest.devices import reader as open_reader
from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_NAPI, IFF_NAPI_FRAGS, IFF_VNET_HDR
from lab.workloads import tcp
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._bpf import choosing
from tests.kernel.scenarios._tap import PACKET_MAX, SLOWEST, Readers, tap
from tests.kernel.scenarios._threads import Repeated


class Polling(Repeated):
    """A thread that waits until a queue can be read, and takes one packet."""

    def __init__(self, queue: int) -> None:
        self.taken = 0
        self._queue, self._poll = queue, select.poll()
        self._poll.register(queue, select.POLLIN)
        super().__init__(self._step)

    def _step(self) -> None:
        if self._poll.poll(100):
            os.read(self._queue, PACKET_MAX)
            self.taken += 1

    def slow_down(self) -> None:
        self.rest = min(2 * self.rest + 0.0001, SLOWEST)


@scenario
def poll_loses_nothing(env: Env) -> None:
    env.load("stall_ms=60000")
    device = env.enter(tap(ring=100))
    with Polling(device.queues[0]) as reader:
        now = net.assert_flood_loses_nothing(env, reader, senders=3)
    assert reader.taken == now.read, (reader.taken, now)


@scenario(on="newest-native")
def tun_reader_loses_nothing(env: Env) -> None:
    env.load("stall_ms=60000")
    reader = net.sink(env, ring=100, here=replace(devices.HERE, mac=""))
    net.assert_flood_is_read(env, reader)


@scenario(on="newest-native")
def steering_changes_under_traffic_lose_nothing(env: Env) -> None:
    env.load("stall_ms=60000")
    device = env.enter(tap(queues=3, ring=100, qdisc="mq"))
    with Readers(device) as readers, net.Flood(senders=2) as senders:
        for queue in (0, 2, 1, 2, 0):
            with choosing(queue) as program:
                device.set_steering(program)
            net.wait_for_stops(env, readers, net.read_stops(queue) + 5, queue)
        device.set_steering(-1)
        senders.wait_for_more(env, 500, "traffic goes on")
        sent = senders.end()
        net.wait_until_empty(env)
    now = net.counters()
    assert now.lost_at_ring == 0, now
    assert now.read + now.qdisc_drops == sent, (now, sent)


@contextlib.contextmanager
def _tunnel(env: Env, flags: int) -> Iterator[devices.Reader]:
    """HERE and FAR, joined by a forwarder, as by a VPN."""
    here = replace(devices.HERE, address=devices.NEAR.address)
    devices.silence_first_netns()
    with devices.netns(str(devices.FAR.netns)):
        with open_reader(
            env.helper("reader"), "forward", (here, devices.FAR), "sluice", flags=flags
        ) as reader:
            devices.attach(here, devices.FAR, ring=50)
            devices.attach(devices.FAR, here, ring=1000)
            yield reader


def _assert_tcp_is_lossless(env: Env, flags: int = 0) -> devices.Reader:
    """Several streams through the tunnel; returns the reader, with its counts."""
    env.load("stall_ms=60000")
    reader = env.enter(_tunnel(env, flags))
    told = Path(f"/sys/class/net/{devices.HERE.name}/tun_flags").read_text()
    assert int(told, 16) & flags == flags, (told, hex(flags))
    with tcp.server():
        env.run(
            *("iperf3", "--client", devices.FAR.address, "--time", "3"),
            *("--parallel", "8", "--json"),
        )
    for device in (devices.HERE, devices.FAR):
        net.wait_until_empty(env, device)
    here, far = net.counters(), devices.read_counters(devices.FAR)
    near_end, far_end = reader.pause()
    assert net.read_queue().stops > 0, "the ring never filled: proves nothing"
    for seen, end in ((here, near_end), (far, far_end)):
        assert seen.lost_at_ring == 0, (seen, end)
        assert seen.passed_by_qdisc == end["segments"], (seen, end)
    return reader


@scenario
def tcp_through_a_vpn_loses_nothing(env: Env) -> None:
    reader = _assert_tcp_is_lossless(env)
    assert reader.counts[0]["largest"] <= 1514, reader.counts


@scenario(on="newest-native")
def tcp_in_large_packets_loses_nothing(env: Env) -> None:
    """With the offloads that wireguard-go and tailscale use."""
    reader = _assert_tcp_is_lossless(env, IFF_VNET_HDR)
    # How many segments a packet has depends on the speed of the host.
    assert reader.counts[0]["largest"] > 1514, reader.counts


def _merging_frees_twice() -> bool:
    """Whether GRO gives the memory of packets that it merges back to their sender twice:
    the change that ended this, in 5.15, made this function."""
    headers = Path("/usr/src").glob("linux-headers-*/include/net/sock.h")
    return all("skb_prepare_for_gro" not in one.read_text() for one in headers)


@scenario
def tcp_in_large_packets_through_napi_loses_nothing(env: Env) -> None:
    if _merging_frees_twice():
        env.skip("GRO of this kernel's tun frees memory twice, without sluice too")
    _assert_tcp_is_lossless(env, IFF_VNET_HDR | IFF_NAPI)


@scenario
def tcp_through_napi_in_pages_loses_nothing(env: Env) -> None:
    _assert_tcp_is_lossless(env, IFF_NAPI | IFF_NAPI_FRAGS)
