# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever userspace does to a tap under traffic, in random order, by a seed.

`make abuse` plays many sequences, make test a few. After each the device is put
in order: then its queues flow, nothing is lost, stops and wakes add up. Each has a
seed of its own; RESULT names that of the one that failed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import signal
import socket
import struct
import time
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, Iterator, List

from pyroute2 import IPRoute, NetNS
from pyroute2.netlink.exceptions import NetlinkError

from lab.bench import unload
from lab.guest import write_json
from lab.scenarios import Env, scenario
from lab.workloads.devices import HERE, THERE, attach, netns, read_counters
from lab.workloads.devices import silence_first_netns
from sluice.netlink import Client
from tests.kernel.scenarios._bpf import choosing
from tests.kernel.scenarios._tap import IFF_MULTI_QUEUE, IFF_TAP, Tap
from tests.kernel.scenarios._traffic import SO_SNDBUFFORCE, send

SEQUENCES = 8  # unless SLUICE_ABUSE_SEQUENCES says otherwise
OPERATIONS = 25  # of a sequence
QUEUES_MAX = 4
SENDERS = 2
ELSEWHERE = "elsewhere"
OTHER_NAME = "other0"
QDISCS = ("fq_codel", "pfifo", "noqueue", "pfifo_fast", "fq", "sfq", "mq")
TUNSETOFFLOAD, TUNSETSNDBUF = 0x400454D0, 0x400454D4
TRACING = Path("/sys/kernel/tracing")
LAST_CPU = Path(f"/sys/devices/system/cpu/cpu{(os.cpu_count() or 1) - 1}/online")
LEAK_KB = 16 * 1024
RESULT = Path("/out/abuse.json")


def _send_for_ever(flow: int) -> None:
    """In a process of its own; errors are what a device that vanishes gives."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # with its parent
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 28)
    for number in range(1 << 62):
        try:
            out.sendto(b"x" * 60, (THERE.address, 1000 + flow + 8 * (number % 8)))
        except OSError:
            time.sleep(0.001)
        if number % 500 == 0:
            time.sleep(0.002)


@contextlib.contextmanager
def _senders() -> Iterator[List[int]]:
    children = []
    for flow in range(SENDERS):
        child = os.fork()
        if not child:
            _send_for_ever(flow)
        children.append(child)
    try:
        yield children
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


class Abuser:
    """A tap, and everything that is done to it; each operation may be refused."""

    def __init__(self, env: Env, seed: int) -> None:
        self.env = env
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.links = IPRoute()
        self.loaded = False
        self.load()
        self.create()

    def load(self) -> None:
        self.env.run("insmod", str(self.env.module), "stall_ms=20")
        self.loaded = True

    def create(self) -> None:
        self.tap = Tap(IFF_TAP | IFF_MULTI_QUEUE)
        self.tap.open_queue()
        self.detached: List[int] = []
        self.index = socket.if_nametoindex(HERE.name)
        attach(HERE, THERE, ring=100)

    # The operations.

    def open_queue(self) -> None:
        if len(self.tap.queues) < QUEUES_MAX:
            self.tap.open_queue()

    def close_queue(self) -> None:
        if len(self.tap.queues) > 1:
            place = self.random.randrange(1, len(self.tap.queues))
            fd = self.tap.queues[place]
            self.detached = [other for other in self.detached if other != fd]
            self.tap.close_queue(place)

    def detach(self) -> None:
        place = self.random.randrange(len(self.tap.queues))
        if self.tap.queues[place] not in self.detached:
            self.tap.set_attached(place, False)
            self.detached.append(self.tap.queues[place])

    def attach(self) -> None:
        if self.detached:
            fd = self.detached[-1]
            self.tap.set_attached(self.tap.queues.index(fd), True)
            self.detached.pop()

    def recreate(self) -> None:
        """Every queue is closed: the device goes, and comes back."""
        while self.tap.queues:
            self.tap.close_queue(0)
        self.create()

    def persist(self) -> None:
        """Its readers go and come, the device stays."""
        self.tap.set_persistent(True)
        while self.tap.queues:
            self.tap.close_queue(0)
        self.detached = []
        self.tap.open_queue()
        self.tap.set_persistent(False)

    def resize(self) -> None:
        length = self.random.choice((1, 2, 8, 50, 100, 500, 1000, 10000))
        self.links.link("set", index=self.index, txqlen=length)

    def mtu(self) -> None:
        size = self.random.choice((68, 576, 1500, 9000))
        self.links.link("set", index=self.index, mtu=size)

    def qdisc(self) -> None:
        kind = self.random.choice(QDISCS)
        self.links.tc("replace", kind, self.index, parent=0xFFFFFFFF)

    def down_and_up(self) -> None:
        self.links.link("set", index=self.index, state="down")
        self.read_some()
        self.links.link("set", index=self.index, state="up")

    def rename(self) -> None:
        self.links.link("set", index=self.index, state="down")
        for name in (OTHER_NAME, HERE.name):
            self.links.link("set", index=self.index, ifname=name)
        self.links.link("set", index=self.index, state="up")

    def move(self) -> None:
        """To another network namespace, and back."""
        with NetNS(ELSEWHERE, flags=0) as there:
            self.links.link("set", index=self.index, net_ns_fd=ELSEWHERE)
            (at,) = there.link_lookup(ifname=HERE.name)
            self.read_some()
            there.link("set", index=at, net_ns_pid=os.getpid())
        self.index = socket.if_nametoindex(HERE.name)
        attach(HERE, THERE)

    def offload(self) -> None:
        flags = self.random.choice((0, 1, 7, 0x1F))
        fcntl.ioctl(self.tap.queues[0], TUNSETOFFLOAD, flags)

    def send_buffer(self) -> None:
        size = self.random.choice((1, 4096, 1 << 30))
        fcntl.ioctl(self.tap.queues[0], TUNSETSNDBUF, struct.pack("i", size))

    def steer(self) -> None:
        with choosing(self.random.randrange(QUEUES_MAX)) as program:
            self.tap.set_steering(program)
            self.read_some()
            self.tap.set_steering(-1)

    def switch(self) -> None:
        if self.loaded:
            self.set_device(on=self.random.randrange(2))

    def tune(self) -> None:
        if self.loaded:
            self.set_device(
                stall_ms=self.random.choice((1, 20, 100)),
                low_percent=self.random.randrange(96),
                limit=self.random.choice((0, 1, 30, 5000)),
                target_us=self.random.choice((0, 1, 500, 100000)),
            )

    def set_device(self, **attrs: int) -> None:
        with Client() as client:
            client.set_device(self.index, **attrs)

    def reload(self) -> None:
        if self.loaded:
            self.loaded = False
            unload()
        else:
            self.load()

    def unplug_cpu(self) -> None:
        if LAST_CPU.exists():
            now = LAST_CPU.read_text().strip()
            LAST_CPU.write_text("0" if now == "1" else "1")

    def trace(self) -> None:
        """Another user of ftrace on the same function."""
        (TRACING / "set_ftrace_filter").write_text("tun_net_xmit")
        (TRACING / "current_tracer").write_text("function")
        self.read_some()
        (TRACING / "current_tracer").write_text("nop")
        (TRACING / "set_ftrace_filter").write_text("")

    def probe(self) -> None:
        """A kprobe on the same function."""
        events = TRACING / "kprobe_events"
        events.write_text("p:sluice_abuse tun_net_xmit")
        enable = TRACING / "events/kprobes/sluice_abuse/enable"
        enable.write_text("1")
        self.read_some()
        enable.write_text("0")
        events_fd = os.open(events, os.O_WRONLY | os.O_APPEND)
        os.write(events_fd, b"-:sluice_abuse")
        os.close(events_fd)

    def read_some(self) -> None:
        for place in range(len(self.tap.queues)):
            if self.random.randrange(3):
                self.tap.read(place, most=self.random.choice((1, 30, 2000)))

    def pause(self) -> None:
        """Longer than the stall time, sometimes."""
        time.sleep(self.random.choice((0.001, 0.005, 0.03)))

    # One sequence.

    SELDOM = ("recreate", "move", "reload", "trace", "probe", "unplug_cpu")
    OFTEN = ("read_some", "pause")
    USUAL = ("open_queue", "close_queue", "detach", "attach", "persist", "resize")
    USUAL += ("mtu", "qdisc", "down_and_up", "rename", "offload", "send_buffer")
    USUAL += ("steer", "switch", "tune")

    def play(self) -> None:
        weights: Dict[str, int] = dict.fromkeys(self.SELDOM, 1)
        weights.update(dict.fromkeys(self.USUAL, 4))
        weights.update(dict.fromkeys(self.OFTEN, 12))
        for name in self.random.choices(
            list(weights), list(weights.values()), k=OPERATIONS
        ):
            operation: Callable[[], None] = getattr(self, name)
            try:
                operation()
                self.done[name] += 1
            except (OSError, NetlinkError):
                self.refused[name] += 1

    def put_in_order(self) -> None:
        """As a device is that nothing was ever done to."""
        if LAST_CPU.exists():
            LAST_CPU.write_text("1")
        while self.detached:
            self.attach()
        while len(self.tap.queues) > 1:
            self.tap.close_queue(1)
        if not self.loaded:
            self.load()
        fcntl.ioctl(self.tap.queues[0], TUNSETSNDBUF, struct.pack("i", 1 << 30))
        self.links.link("set", index=self.index, mtu=1500, txqlen=100)
        attach(HERE, THERE)
        self.set_device(on=1, stall_ms=60000, low_percent=50, limit=0, target_us=0)

    def check(self) -> None:
        """The qdisc empties, a burst loses nothing, stops and wakes add up."""

        def empty() -> bool:
            return self.tap.read_all() == 0 and read_counters(HERE).held == 0

        self.env.wait_for(empty, "qdisc and rings empty", seconds=60)
        before = read_counters(HERE)
        already = self.tap.read_count
        sent = send(300)

        def settled() -> bool:
            gone = read_counters(HERE) - before
            return self.tap.read_all() == 0 and gone.read + gone.qdisc_drops >= sent

        self.env.wait_for(settled, f"{sent} packets gone", seconds=60)
        now = read_counters(HERE) - before
        assert now.lost_at_ring == 0 and now.read + now.qdisc_drops == sent, now
        assert now.read == self.tap.read_count - already, (now, self.tap.read_count)
        with Client() as client:
            for queue in client.queues(self.index):
                assert queue.state == "open", queue
                assert queue.stops == queue.wakes_timer + queue.wakes_other, queue


def _read_unreclaimable_kb() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("SUnreclaim:"):
            return int(line.split()[1])
    raise AssertionError("/proc/meminfo: no SUnreclaim")


@scenario(deadline=24 * 3600)
def random_sequences_leave_a_device_that_flows(env: Env) -> None:
    seed = int(os.environ.get("SLUICE_ABUSE_SEED", "1"))
    sequences = int(os.environ.get("SLUICE_ABUSE_SEQUENCES", SEQUENCES))
    if not TRACING.joinpath("events").exists():
        env.run("mount", "-t", "tracefs", "tracefs", str(TRACING))
    silence_first_netns()
    env.enter(netns(ELSEWHERE))
    env.defer(unload)
    abuser = Abuser(env, seed)
    memory_kb = []
    for number in range(seed, seed + sequences):
        abuser.random.seed(number)
        facts = {"seed": number, "done": abuser.done, "refused": abuser.refused}
        write_json(RESULT, {**facts, "sequences": number - seed})
        with _senders() as children:
            abuser.play()
            for child in children:
                os.kill(child, signal.SIGSTOP)
        abuser.put_in_order()
        abuser.check()
        memory_kb.append(_read_unreclaimable_kb())
    grown_kb = memory_kb[-1] - memory_kb[len(memory_kb) // 3]
    write_json(RESULT, {**facts, "sequences": sequences, "grown_kb": grown_kb})
    assert grown_kb < LEAK_KB, f"slabs grew by {grown_kb} kB"
    never = [name for name in abuser.refused if not abuser.done[name]]
    assert not never, f"always refused: {never}"
