# SPDX-License-Identifier: GPL-2.0-or-later
"""What the bench measures on: two temporary namespaces and a slow reader between them.

None of it has a name in the system. The namespaces and devices exist as long as the
processes that hold them, and these end with the command, however it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice import rtnl, system
from sluice.errors import SluiceError, Unsuitable
from sluice.netlink import Client, NetlinkError

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PR_SET_PDEATHSIG = 1
SO_RCVBUFFORCE = 33
RING = 500  # txqueuelen of a tun device
QDISC = "fq_codel"
PACKET_MAX = 65536
FLOOD_PORT, ECHO_PORT, STREAM_PORT = 7001, 7002, 7003
PAYLOAD = b"x" * 1000
PROBE_EVERY = 0.02
DRAIN_SECONDS = 0.3  # after this time without a packet everything has been read
GRACE_SECONDS = 20.0  # a child whose answer is late by more than this is lost


# Processes


class Child:
    """A function in a process of its own, which ends when this process ends."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        parent = os.getpid()
        self._pipe, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _be_child(parent, writing, function, arguments)
        os.close(writing)

    def answer(self, seconds: float) -> Any:
        """What the function returns within this time."""
        data, until = b"", time.monotonic() + seconds + GRACE_SECONDS
        while True:
            left = max(0.0, until - time.monotonic())
            if not select.select([self._pipe], [], [], left)[0]:
                raise SluiceError("bench: a process does not answer; run it again")
            chunk = os.read(self._pipe, 65536)
            if not chunk:
                break
            data += chunk
        said = json.loads(data or '{"error": "died"}')
        if "error" in said:
            raise SluiceError(f"bench: {said['error']}; see: sluice doctor")
        return said["answer"]

    def end(self) -> None:
        os.close(self._pipe)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _be_child(
    parent: int, writing: int, function: Callable[..., Any], arguments: Any
) -> None:
    """Run the function and exit. Only the parent handles Ctrl-C."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        try:
            said = {"answer": function(*arguments)}
        except BaseException as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        with os.fdopen(writing, "w") as out:
            json.dump(said, out)
    finally:
        os._exit(0)


@contextlib.contextmanager
def child(function: Callable[..., Any], *arguments: Any) -> Iterator[Child]:
    started = Child(function, *arguments)
    try:
        yield started
    finally:
        started.end()


# Devices


@dataclass(frozen=True)
class End:
    """A tun device in a namespace of its own."""

    name: str
    address: str
    netns: int  # descriptor
    ifindex: int

    def read_drops(self) -> int:
        """Packets lost at its ring since it was made."""
        with system.inside(self.netns):
            links = system.read_links(system.Namespace("", 0, None))
        return links[0].tx_dropped

    def switch(self, on: bool) -> None:
        with system.inside(self.netns), Client() as client:
            client.set_device(self.ifindex, on=int(on))
            device = client.device(self.ifindex)
        if device.state != ("served" if on else "off"):
            why = device.reason or device.state
            raise SluiceError(f"{self.name}: {why}; see: sluice doctor")


def _open_tun(name: str) -> int:
    """A new tun device in the current namespace."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    request = struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI)
    try:
        fcntl.ioctl(fd, TUNSETIFF, request)
    except OSError:
        os.close(fd)
        raise
    return fd


def _set_up(name: str, address: str) -> int:
    """Set the address and the qdisc, so that only the bench sends; return the ifindex."""
    with contextlib.suppress(OSError):  # the kernel may lack IPv6
        Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1\n")
    ifindex = socket.if_nametoindex(name)
    rtnl.set_ring(ifindex, RING)
    rtnl.add_address(ifindex, socket.inet_aton(address), 24)
    try:
        system.attach_qdisc(ifindex, 1, QDISC)
    except NetlinkError as error:
        if error.code != errno.ENOENT:
            raise
        raise Unsuitable(f"no qdisc {QDISC}; run: modprobe sch_{QDISC}") from error
    rtnl.set_up(ifindex)
    return ifindex


def _make_end(
    stack: contextlib.ExitStack, ours: contextlib.ExitStack, name: str, address: str
) -> tuple[End, int]:
    netns = system.new_netns()
    stack.callback(os.close, netns)
    with system.inside(netns):
        fd = _open_tun(name)
        ours.callback(os.close, fd)
        return End(name, address, netns, _set_up(name, address)), fd


def forward(one: int, other: int, work_ns: int) -> None:
    """The reader: forward packets from each device to the other, with this much work
    for each packet, until it is killed."""
    across = {one: other, other: one}
    poll = select.epoll()
    for fd in across:
        poll.register(fd, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            with contextlib.suppress(BlockingIOError):
                for _ in range(64):
                    packet = os.read(fd, PACKET_MAX)
                    until = time.perf_counter_ns() + work_ns
                    while time.perf_counter_ns() < until:
                        pass
                    with contextlib.suppress(OSError):  # the device refuses this packet
                        os.write(across[fd], packet)


@dataclass(frozen=True)
class Testbed:
    near: End
    far: End

    def switch(self, on: bool) -> None:
        self.near.switch(on)
        self.far.switch(on)

    def read_drops(self) -> int:
        return self.near.read_drops() + self.far.read_drops()


@contextlib.contextmanager
def testbed(work_us: int) -> Iterator[Testbed]:
    """Two ends and a reader between them, with this much work for each packet."""
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as ours:  # only the reader keeps the devices
            near, one = _make_end(stack, ours, "near0", "10.93.0.1")
            far, other = _make_end(stack, ours, "far0", "10.93.0.2")
            stack.enter_context(child(forward, one, other, work_us * 1000))
        yield Testbed(near, far)


# Loads: each end runs in a process of its own


@dataclass(frozen=True)
class Load:
    """The result of a load. Packets and bytes are those that the receiver counted."""

    sent: int  # packets; unknown for a stream
    packets: int
    bytes: int
    seconds: float  # from the first received to the last
    probes: int
    rtts_ms: list[float] = field(default_factory=list)


def flood(out: socket.socket, address: str, seconds: float) -> int:
    """Send as fast as the socket accepts packets; return how many."""
    sent, until = 0, time.monotonic() + seconds
    out.connect((address, FLOOD_PORT))
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            out.send(PAYLOAD)
            sent += 1
    return sent


def stream(out: socket.socket, address: str, seconds: float) -> int:
    """One TCP stream at full speed; what is in flight at its end is not waited for."""
    block, until = b"x" * 65536, time.monotonic() + seconds
    out.settimeout(GRACE_SECONDS / 2)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    out.connect((address, STREAM_PORT))
    # The receiver ends when it has received nothing for some time.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while time.monotonic() < until:
            out.send(block)
    out.close()
    return 0


def probe(
    out: socket.socket, address: str, seconds: float
) -> tuple[int, list[float]]:
    """Send probes, which come back: how many were sent, and their round-trip times."""
    rtts: list[float] = []
    sent, until = 0, time.monotonic() + seconds
    out.connect((address, ECHO_PORT))
    due = time.monotonic()
    while (now := time.monotonic()) < until + 1 and (now < until or len(rtts) < sent):
        if due <= now < until:
            with contextlib.suppress(OSError):
                out.send(struct.pack("d", now))
            sent, due = sent + 1, due + PROBE_EVERY
        next_step = due if due < until else until + 1
        if select.select([out], [], [], max(0.0, next_step - now))[0]:
            with contextlib.suppress(OSError):
                (then,) = struct.unpack("d", out.recv(8))
                rtts.append((time.monotonic() - then) * 1e3)
    return sent, rtts


@dataclass
class _Count:
    packets: int = 0
    bytes: int = 0
    first: float = 0.0
    last: float = 0.0


def _drain(source: socket.socket, count: _Count) -> bool:
    """Receive what is there, but not so much that probes wait; whether more may come."""
    try:
        for _ in range(32):
            size = len(source.recv(65536))
            if not size:
                return False
            count.last = time.monotonic()
            count.first = count.first or count.last
            count.packets += 1
            count.bytes += size
    except BlockingIOError:
        return True
    except OSError:  # the sender has closed the stream
        return False
    return True


def receive(
    echo: socket.socket, packets: socket.socket, listening: socket.socket,
    seconds: float,
) -> tuple[int, int, float]:
    """Count the packets or bytes until everything is read, and return the probes."""
    count, until = _Count(), time.monotonic() + seconds
    sources = {packets}
    while True:
        ready = select.select([echo, listening, *sources], [], [], DRAIN_SECONDS)[0]
        now = time.monotonic()
        if now > until and now - count.last > DRAIN_SECONDS:
            return count.packets, count.bytes, count.last - count.first
        if listening in ready:
            connection = listening.accept()[0]
            connection.setblocking(False)
            sources.add(connection)
        if echo in ready:
            with contextlib.suppress(OSError):
                echo.sendto(*echo.recvfrom(64))
        sources -= {one for one in sources & set(ready) if not _drain(one, count)}


def _bound(kind: int, address: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, kind)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
    bound.bind((address, port))
    bound.setblocking(False)
    if kind == socket.SOCK_STREAM:
        bound.listen()
    return bound


LOADS = {"udp": (socket.SOCK_DGRAM, flood), "tcp": (socket.SOCK_STREAM, stream)}


def run_load(bed: Testbed, kind: str, seconds: float) -> Load:
    address, (type_, send) = bed.far.address, LOADS[kind]
    with contextlib.ExitStack() as stack:
        start = stack.enter_context
        with system.inside(bed.far.netns):  # a socket keeps its namespace
            echo = start(_bound(socket.SOCK_DGRAM, address, ECHO_PORT))
            packets = start(_bound(socket.SOCK_DGRAM, address, FLOOD_PORT))
            listening = start(_bound(socket.SOCK_STREAM, address, STREAM_PORT))
        with system.inside(bed.near.netns):
            out = start(socket.socket(socket.AF_INET, type_))
            probing = start(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        receiver = start(child(receive, echo, packets, listening, seconds))
        prober = start(child(probe, probing, address, seconds))
        sender = start(child(send, out, address, seconds))
        sent = sender.answer(seconds)
        count, size, lasted = receiver.answer(seconds)
        probes, rtts = prober.answer(seconds)
    return Load(sent, count, size, lasted, probes, rtts)
