# SPDX-License-Identifier: GPL-2.0-or-later
"""The tun/tap devices of a workload: made, connected, counted, removed.

A device lives as long as the reader that made it. Neighbours are static and
IPv6 is off, so that nothing but the workload sends.
"""

from __future__ import annotations

import contextlib
import functools
import json
import operator
import os
import re
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, TypeVar

from lab.failure import WorkloadError
from lab.guest import tun
from lab.variants import parse_variant

Answer = TypeVar("Answer")
DRAIN_SECONDS = 5.0


@dataclass(frozen=True)
class Device:
    name: str
    address: str
    mac: str
    netns: str | None = None  # None: the guest's first

    @property
    def inside(self) -> list[str]:
        """Words of ip and tc."""
        return ["-n", self.netns] if self.netns else []

    def command(self, *argv: str) -> list[str]:
        if self.netns is None:
            return list(argv)
        return ["ip", "netns", "exec", self.netns, *argv]


@dataclass(frozen=True)
class Counters:
    """Of one device, since it was made. Packets; a GSO packet counts each."""

    read: int  # tx_packets: the driver counts when the reader reads
    lost_at_ring: int  # tx_dropped
    passed_by_qdisc: int
    qdisc_drops: int
    requeues: int
    held: int  # in the qdisc

    def __add__(self, other: Counters) -> Counters:
        return Counters(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*map(operator.sub, astuple(self), astuple(other)))

    @property
    def offered(self) -> int:
        """Given to the qdisc."""
        return self.passed_by_qdisc + self.qdisc_drops + self.held


# Of the root qdisc; its options may fill lines.
ROOT_COUNTS = re.compile(
    r"^qdisc \S+ \S+ root (?:(?!^qdisc).)*?"
    r"Sent \d+ bytes (\d+) pkt \(dropped (\d+), overlimits \d+ requeues (\d+)\)"
    r"(?:(?!^qdisc).)*?backlog \S+ (\d+)p",
    re.MULTILINE | re.DOTALL,
)


def parse_counters(link: str, qdiscs: str) -> Counters:
    """From `ip -j -s link show` and `tc -s qdisc show` of a device: of some kinds of
    qdisc tc prints no valid JSON.

    noqueue has no root entry with counts: its counts are 0.
    """
    sent = json.loads(link)[0]["stats64"]["tx"]
    root = ROOT_COUNTS.search(qdiscs)
    counts = map(int, root.groups() if root else (0,) * 4)
    return Counters(sent["packets"], sent["dropped"], *counts)


def run_tool(
    argv: Sequence[str],
    stdin: str = "",
    seconds: float | None = None,
    check: bool = True,
) -> str:
    """A command's output; WorkloadError if it takes longer than this, or, with check,
    if it fails."""
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise WorkloadError(
            f"{' '.join(argv)}: not done after {seconds:.0f} s; "
            "is a queue stopped for ever?"
        ) from None
    if check and done.returncode != 0:
        message = (done.stderr or done.stdout).strip() or "no message"
        raise WorkloadError(f"{' '.join(argv)}: status {done.returncode}: {message}")
    return done.stdout


def read_counters(device: Device) -> Counters:
    qdiscs = run_tool(["tc", *device.inside, "-s", "qdisc", "show", "dev", device.name])
    link = ["ip", *device.inside, "-j", "-s", "link", "show", "dev", device.name]
    return parse_counters(run_tool(link), qdiscs)


def ask_module(device: Device, question: Callable[[Any, int], Answer]) -> Answer:
    """Ask the module about a device, in its namespace; LookupError if not loaded.

    question: is given a sluice.netlink.Client and the device's index.
    """
    from sluice import system  # the guest has what it needs
    from sluice.netlink import Client

    with system.netns(device.netns or ""), Client() as client:
        return question(client, socket.if_nametoindex(device.name))


def read_all_counters(devices: Sequence[Device]) -> Counters:
    return functools.reduce(operator.add, map(read_counters, devices))


def wait_drained(devices: Sequence[Device], direct: int = 0) -> Counters:
    """The counts once the reader has read all that was sent, or at a deadline, where
    conservation shows the rest; direct: packets given to the driver around the qdisc."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while True:
        now = read_all_counters(devices)
        missing = direct + now.passed_by_qdisc - now.read - now.lost_at_ring
        if (missing <= 0 and now.held == 0) or time.monotonic() > deadline:
            return now
        time.sleep(0.05)


def wait_until(
    condition: Callable[[], Answer],
    what: str,
    seconds: float,
    pause: float = 0.01,
    error: type[Exception] = WorkloadError,
) -> Answer:
    """What the condition returns once that is true; the error if it never is."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise error(f"{what}: not within {seconds:g} s")
        time.sleep(pause)
    return value


SILENCE_IPV6 = (
    "test ! -e /proc/sys/net/ipv6/conf/default/disable_ipv6 ||"
    " echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6"
)


def make_netns(name: str) -> str:
    """A new network namespace with lo up and IPv6 off; an old one is deleted."""
    if os.path.exists(f"/run/netns/{name}"):
        run_tool(["ip", "netns", "del", name])
    run_tool(["ip", "netns", "add", name])
    run_tool(["ip", "netns", "exec", name, "sh", "-c", SILENCE_IPV6])
    run_tool(["ip", "-n", name, "link", "set", "lo", "up"])
    return name


@contextlib.contextmanager
def netns(name: str) -> Iterator[str]:
    """The same, deleted at the end."""
    make_netns(name)
    try:
        yield name
    finally:
        run_tool(["ip", "netns", "del", name])


def _neighbour(name: str, peer: Device) -> str:
    mac = f"lladdr {peer.mac}"
    return f"neighbour replace {peer.address} {mac} dev {name} nud permanent"


def add_neighbour(name: str, peer: Device) -> None:
    """The peer as a static neighbour on the device of this name, which is up."""
    run_tool(["ip", *_neighbour(name, peer).split()])


def attach(
    device: Device, peer: Device, qdisc: str = "fq_codel", ring: int | None = None
) -> None:
    """Qdisc (as tc takes it), address, and the peer as a static neighbour; then up.

    A tun device has no MAC address ("") and needs no neighbour.
    """
    name, namespace = device.name, device.inside
    # "replace" makes the kind we ask for even where it is the default.
    replace = ["qdisc", "replace", "dev", name, "root", *qdisc.split()]
    lines = [f"link set dev {name} up", f"address replace {device.address}/24 dev {name}"]
    if device.mac:
        lines.insert(0, f"link set dev {name} address {device.mac}")
        lines.append(_neighbour(name, peer))
    if ring is not None:  # first, for some qdiscs take their limit from it
        run_tool(["ip", *namespace, "link", "set", name, "txqueuelen", str(ring)])
    run_tool(["tc", *namespace, *replace])
    run_tool(["ip", *namespace, "-batch", "-"], stdin="\n".join(lines) + "\n")


def parse_reader_line(text: str, state: str) -> dict[str, Any]:
    """The counts in a line of the reader helper."""
    try:
        line = dict(json.loads(text))
    except ValueError:
        line = {}
    if line.get("state") != state:
        raise WorkloadError(
            f"reader: said {text.strip()!r} instead of {state!r}; see its message"
        )
    return line


class Reader:
    """The processes that read the rings of devices, which vanish with them.

    One for each queue of a sink, or for each direction of "forward": in User-Mode Linux
    the threads of a process run one at a time, and the others spin meanwhile.
    """

    def __init__(
        self, helper: str, mode: str, queues: Sequence[int], options: Sequence[str]
    ) -> None:
        """queues: files, which are the processes' alone from now on."""
        orders = [[queue] for queue in queues]
        if mode == "forward":
            orders = [[*queues], [*queues[::-1]]]
        try:
            self._processes = [
                subprocess.Popen(
                    [helper, *options, *map(str, files)],
                    stdout=subprocess.PIPE,
                    universal_newlines=True,
                    pass_fds=files,
                )
                for files in orders
            ]
        finally:
            for queue in queues:
                os.close(queue)
        self._wait_for("paused" if "--paused" in options else "reading")

    @property
    def pid(self) -> int:
        """Of a sink with one queue."""
        [process] = self._processes
        return process.pid

    @property
    def read(self) -> int:
        """Packets, when it last said what it had counted."""
        return sum(int(count["read"]) for count in self.counts)

    def _wait_for(self, state: str) -> list[dict[str, Any]]:
        """The counts of each queue that is read, in the order of the queues."""
        lines = [process.stdout.readline() for process in self._processes]  # type: ignore[union-attr]
        self.counts = [parse_reader_line(line, state) for line in lines]
        return self.counts

    def _change(self, number: int, state: str) -> list[dict[str, Any]]:
        for process in self._processes:
            process.send_signal(number)
        return self._wait_for(state)

    def pause(self) -> list[dict[str, Any]]:
        return self._change(signal.SIGUSR1, "paused")

    def resume(self) -> list[dict[str, Any]]:
        return self._change(signal.SIGUSR2, "reading")

    def slow_down(self) -> None:
        """From now on each packet takes it twice as long, or 100 us; 10 ms at most."""
        self._change(signal.SIGHUP, "slower")

    def end(self) -> list[dict[str, Any]]:
        """Ends it, which removes its devices; returns its last counts."""
        self._change(signal.SIGTERM, "ended")
        for process in self._processes:
            process.wait(timeout=10)
        return self.counts

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def _open_queue(device: Device, flags: int) -> int:
    """In the device's namespace; it blocks."""
    from sluice.namespaces import netns as inside  # the guest has what it needs

    flags |= tun.IFF_NO_PI | (tun.IFF_TAP if device.mac else tun.IFF_TUN)
    try:
        with inside(device.netns or ""):
            queue = tun.open_queue(flags, device.name, options=0)
        if flags & tun.IFF_VNET_HDR:
            tun.ask_for_large_packets(queue)
    except OSError as error:
        raise WorkloadError(f"{device.name}: cannot be opened: {error}") from error
    return queue


@contextlib.contextmanager
def reader(
    helper: str,
    mode: str,
    devices: Sequence[Device],
    variant: str,
    options: Sequence[str] = (),
    paused: bool = False,
    vhost: bool = False,
    flags: int = 0,
) -> Iterator[Reader]:
    """A running reader; if the variant says so it asks for IFF_BACKPRESSURE.

    A device named more than once gets so many queues; options: as reader.c
    explains them; flags: of the devices, besides those they need.
    """
    if vhost:
        run_tool(["modprobe", "vhost_net"])
        options = [*options, "--vhost"]
    if paused:
        options = [*options, "--paused"]
    if len(set(devices)) < len(devices):
        flags |= tun.IFF_MULTI_QUEUE
    if parse_variant(variant).sets_flag:
        flags |= tun.IFF_BACKPRESSURE
    queues = [_open_queue(device, flags) for device in devices]
    running = Reader(helper, mode, queues, options)
    try:
        yield running
    finally:
        running.kill()


def silence_first_netns() -> None:
    run_tool(["sh", "-c", SILENCE_IPV6])


# Two ends of a forwarder, each in a namespace of its own.
NEAR = Device("near0", "10.91.0.1", "02:00:00:00:91:01", netns="near")
FAR = Device("far0", "10.91.0.2", "02:00:00:00:91:02", netns="far")
# A device in the guest's first namespace, and the peer its reader stands for.
HERE = Device("here0", "10.92.0.1", "02:00:00:00:92:01")
THERE = Device("(reader)", "10.92.0.2", "02:00:00:00:92:02")


@contextlib.contextmanager
def forwarder(
    helper: str,
    variant: str,
    pace: Sequence[str] = (),
    ring: int | None = None,
) -> Iterator[Reader]:
    """NEAR and FAR, connected by a userspace forwarder."""
    with netns(str(NEAR.netns)), netns(str(FAR.netns)):
        with reader(helper, "forward", (NEAR, FAR), variant, pace) as process:
            attach(NEAR, FAR, ring=ring)
            attach(FAR, NEAR, ring=ring)
            yield process


@contextlib.contextmanager
def sink(
    helper: str,
    variant: str,
    ring: int | None = None,
    here: Device = HERE,
    queues: int = 1,
    qdisc: str | None = None,
    **settings: Any,
) -> Iterator[Reader]:
    """HERE, read by a sink that answers pings to THERE.

    qdisc: by default fq_codel, and mq if there are several queues; settings: more
    arguments of reader().
    """
    silence_first_netns()
    with reader(helper, "sink", (here,) * queues, variant, **settings) as process:
        attach(here, THERE, qdisc or ("fq_codel" if queues == 1 else "mq"), ring)
        yield process


def group_of(name: str) -> str:
    """The group of the devices whose names begin with this."""
    return str(sum(name.encode()))


@contextlib.contextmanager
def crowd(size: int, flags: int = 0, name: str = "crowd") -> Iterator[None]:
    """So many taps with a reader that has nothing to read; flags besides IFF_TAP.

    They are a group, so that all can be removed at once: one after the other they take
    a grace period each.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (max(size + 1000, limit) for limit in before)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    silence_first_netns()
    group = group_of(name)
    names = [f"{name}{number}" for number in range(size)]
    files: list[int] = []
    try:
        for one in names:
            files.append(tun.open_queue(tun.IFF_TAP | tun.IFF_NO_PI | flags, one))
        lines = (f"link set dev {one} group {group}\n" for one in names)
        run_tool(["ip", "-batch", "-"], stdin="".join(lines))
        yield
    finally:
        with contextlib.suppress(Exception):
            run_tool(["ip", "link", "del", "group", group])
        for fd in files:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
