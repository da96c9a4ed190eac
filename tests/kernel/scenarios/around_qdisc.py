# SPDX-License-Identifier: GPL-2.0-or-later
"""Senders that bypass the qdisc, beside a flood of blocking sockets.

The core refuses their frames while the queue is stopped (docs/limits.md). Frames
that are received are counted with sluice off and on, in one boot, with default
parameters.
"""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import signal
import socket
import statistics
import time
from pathlib import Path
from typing import Callable

from lab.guest import debug
from lab.guest.devices import HERE
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._bpf import XDP_IN_CORE, redirected
from tests.kernel.scenarios._frames import FRAME, bypassing_socket, is_frame
from tests.kernel.scenarios._links import ENTRY, SOURCE, empty_bridge, veth_pair
from tests.kernel.scenarios._tap import PACKET_MAX, Tap, tap

FRAMES, PER_SECOND = 3000, 1000
MESSAGES, MESSAGES_PER_SECOND = 300, 100  # of the kernel, to netconsole
MESSAGE = b"a message for netconsole\n"
NETCONSOLE_PORT = 6666
NETCONSOLE = Path("/sys/kernel/config/netconsole")
WORK_SECONDS = 0.0001  # of the reader, for each packet; more where senders are slow


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def is_message(packet: bytes) -> bool:
    """Whether it is ours, over UDP to netconsole's port; the kernel has messages, too."""
    udp, port = packet[12:14] == b"\x08\0" and packet[23] == 17, packet[36:38]
    return udp and port == NETCONSOLE_PORT.to_bytes(2, "big") and MESSAGE in packet


class CountingReader:
    """A process that reads a tap and counts the frames that bypassed the qdisc."""

    def __init__(
        self, env: Env, device: Tap, is_counted: Callable[[bytes], bool]
    ) -> None:
        self._counts = multiprocessing.RawArray("Q", 2)
        self._is_counted = is_counted
        self._work_seconds = WORK_SECONDS * env.patience
        fd = device.queues[0]
        os.set_blocking(fd, True)
        self._process = multiprocessing.Process(target=self._count, args=(fd,))
        self._process.daemon = True
        self._process.start()
        env.defer(self._process.join)
        env.defer(self._process.kill)

    def _count(self, fd: int) -> None:
        _die_with_parent()
        while True:
            self._counts[self._is_counted(os.read(fd, PACKET_MAX))] += 1
            end = time.perf_counter() + self._work_seconds
            while time.perf_counter() < end:
                pass

    @property
    def frames(self) -> int:
        return self._counts[1]

    @property
    def all(self) -> int:
        return sum(self._counts)

    def wait_for_rest(self, env: Env) -> None:
        """Until the qdisc and the ring are empty."""

        def drained() -> bool:
            before = self.all
            time.sleep(0.3)
            return before == self.all and not net.counters().held and net.ring_is_empty()

        env.wait_for(drained, "qdisc and ring empty", 30)


def _received(env: Env, reader: CountingReader, send: Callable[[], int]) -> int:
    """How many of the sender's frames are received beside a flood that runs already."""
    before = reader.frames
    with net.Flood(senders=2) as senders:
        senders.wait_for_more(env, 3000, "the flood")
        most = send()
        senders.end()
    reader.wait_for_rest(env)
    received = reader.frames - before
    assert received <= most, (received, most)
    return received


def _compare(
    env: Env,
    device: Tap,
    send: Callable[[], int],
    is_counted: Callable[[bytes], bool] = is_frame,
    frames: int = FRAMES,
) -> str:
    """Off and on by turns. send: sends so many frames, and returns how many of them
    the kernel accepted."""
    env.load()
    reader = CountingReader(env, device, is_counted)
    received = {0: 0, 1: 0}
    for on in (0, 1, 0, 1):
        net.set_device(on=on)
        lost = net.counters().lost_at_ring
        received[on] += _received(env, reader, send)
        assert on or net.counters().lost_at_ring > lost, "the ring never filled"
    assert net.read_stops() > 0, "the queue was never stopped"
    assert received[0], received  # sluice refuses most, or all, until the flood ends
    before = reader.frames
    send()
    reader.wait_for_rest(env)
    assert reader.frames > before, "refused without a flood, too"
    return f"received of {2 * frames}: stock {received[0]}, sluice {received[1]}"


def _at_a_rate(send: Callable[[], object], times: int, per_second: int) -> None:
    start = time.monotonic()
    for number in range(times):
        time.sleep(max(0.0, start + number / per_second - time.monotonic()))
        send()


def _sender(env: Env, name: str) -> Callable[[], int]:
    """Sends FRAMES frames into this device, past its qdisc."""
    out = env.enter(bypassing_socket(name))

    def send() -> int:
        refused = 0

        def send_one() -> None:
            nonlocal refused
            try:
                out.send(FRAME)
            except OSError as error:
                assert error.errno == errno.ENOBUFS, error
                refused += 1

        _at_a_rate(send_one, FRAMES, PER_SECOND)
        return FRAMES - refused

    return send


@scenario(deadline=120, on="newest-native")
def packet_socket_that_bypasses_the_qdisc(env: Env) -> str:
    device = env.enter(tap(ring=500))
    return _compare(env, device, _sender(env, HERE.name))


@scenario(deadline=120, often=False)
def xdp_redirect_in_the_core(env: Env) -> str:
    device = env.enter(tap(ring=500))
    veth_pair(env)
    source = socket.if_nametoindex(ENTRY)
    env.enter(redirected(source, net.ifindex(), XDP_IN_CORE))
    return _compare(env, device, _sender(env, SOURCE))


def _send_messages_to_netconsole(env: Env, source: str) -> None:
    """From this interface, until the scenario's end."""
    try:
        env.run("modprobe", "netconsole")
    except AssertionError:
        env.skip("this kernel has no netconsole")
    if not NETCONSOLE.exists():
        env.run("busybox", "mount", "-t", "configfs", "none", str(NETCONSOLE.parent))
    settings = {
        "dev_name": source,
        "local_ip": "10.93.0.1",
        "remote_ip": "10.93.0.2",
        "remote_mac": "02:00:00:00:93:02",
        "remote_port": str(NETCONSOLE_PORT),
        "enabled": "1",
    }
    target = NETCONSOLE / "around"
    target.mkdir()
    env.defer(target.rmdir)
    for name, value in settings.items():
        (target / name).write_text(value)
    env.defer((target / "enabled").write_text, "0")
    Path("/proc/sys/kernel/printk_devkmsg").write_text("on\n")  # not without \n


@scenario(deadline=120, often=False)
def netconsole_over_a_bridge(env: Env) -> str:
    """netpoll keeps what it cannot send to a stopped queue of the port, and tries again
    ten times a second: its messages are late instead of lost."""
    if debug.LOCKS.exists() or debug.RACES.exists():
        env.skip("tun takes its ring's lock under the console's: printing may lock up")
    device = env.enter(tap(ring=500))
    env.enter(empty_bridge())
    env.run("ip", "link", "set", HERE.name, "master", "bridge0")
    _send_messages_to_netconsole(env, "bridge0")
    took: list[float] = []
    with open("/dev/kmsg", "wb", buffering=0) as log:

        def write() -> None:
            started = time.monotonic()
            log.write(b"<4>" + MESSAGE)
            took.append(time.monotonic() - started)

        def send() -> int:
            _at_a_rate(write, MESSAGES, MESSAGES_PER_SECOND)
            return MESSAGES

        result = _compare(env, device, send, is_message, MESSAGES)
    ms = [
        f"{1000 * statistics.median(part):.1f}"
        for part in (took[:MESSAGES], took[MESSAGES : 2 * MESSAGES])
    ]
    return f"{result}; a message took its writer {ms[0]} and {ms[1]} ms (median)"
