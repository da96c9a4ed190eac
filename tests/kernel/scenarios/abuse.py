# SPDX-License-Identifier: GPL-2.0-or-later
"""Random sequences of everything that userspace does to a tap, under traffic.

`make abuse` plays many sequences, make test a few. After each the device is set up
as usual: then packets flow, none is lost, and there are as many wakes as stops. Each
sequence has a seed of its own; RESULT names that of the one that failed.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import os
import random
import shutil
import signal
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError as RouteError

from lab.failure import WorkloadError
from lab.guest import devices, tun
from lab.guest.job import write_json
from lab.guest.program import SO_SNDBUFFORCE
from lab.guest.rows import unload
from lab.guest.scenarios import Env, scenario
from sluice import system
from sluice.errors import NetlinkError
from sluice.netlink import Client
from tests.kernel.scenarios import _ftrace, _memory, _patch, _tap
from tests.kernel.scenarios._bpf import choosing
from tests.kernel.scenarios._ftrace import has_ftrace
from tests.kernel.scenarios._traffic import read_queue, send, wait_until_open

SEQUENCES = 25  # unless SLUICE_ABUSE_SEQUENCES says otherwise
OPERATIONS = 25  # of a sequence
ENOUGH = 100  # sequences: every operation succeeds at least once
QUEUES_MAX = 4
SENDERS = 2
SHORT_STALL_MS = 5
BATCH = 16  # slots a reader frees at once
STOCK_EVERY = 10  # sequences: then unload, and check the stock behaviour
PATIENT_EVERY = 10  # sequences: grace periods of RCU take their time
ELSEWHERE = "elsewhere"
OTHER_NAME = "other0"
QDISCS = ("fq_codel", "pfifo", "noqueue", "pfifo_fast", "fq", "sfq", "mq")
QDISC = "fq_codel"
ROOT, HANDLE = 0xFFFFFFFF, 0x920000
TUNGETIFF, TUNSETOFFLOAD = 0x800454D2, 0x400454D0
TUNSETFILTEREBPF, TUNSETCARRIER = 0x800454E1, 0x400454E2
# Settings of the driver that take a small number.
SMALL_SETTINGS = {
    "TUNSETDEBUG": 0x400454C9,
    "TUNSETOWNER": 0x400454CC,
    "TUNSETGROUP": 0x400454CE,
    "TUNSETVNETHDRSZ": 0x400454D8,
    "TUNSETVNETLE": 0x400454DC,
    "TUNSETVNETBE": 0x400454DE,
    "TUNSETCARRIER": TUNSETCARRIER,
}
USUAL_FLAGS = tun.IFF_TAP | _tap.IFF_MULTI_QUEUE
# Each beside IFF_TUN or IFF_TAP, and with any of the others.
FLAGS = {
    "IFF_MULTI_QUEUE": _tap.IFF_MULTI_QUEUE,
    "IFF_VNET_HDR": tun.IFF_VNET_HDR,
    "IFF_NAPI": 0x0010,
    "IFF_NAPI_FRAGS": 0x0020,
    "IFF_NO_CARRIER": 0x0040,
    "IFF_BACKPRESSURE": tun.IFF_BACKPRESSURE,
    "IFF_ONE_QUEUE": 0x2000,
    "IFF_TUN_EXCL": 0x8000,
}
LAST_CPU = Path(f"/sys/devices/system/cpu/cpu{(os.cpu_count() or 1) - 1}/online")
MODULE = Path("/sys/module/sluice")
RCU_EXPEDITED = Path("/sys/kernel/rcu_expedited")
RESULT = Path("/out/abuse.json")
LONG = 30.0  # seconds of a sequence after which it tells where it is
WHERE = Path("/out/abuse.where")
TOOLS = Path("/run/abuse")


def _send_for_ever(flow: int, burst: int) -> None:
    """In a process of its own, with a rest after so many packets; there are errors while
    the device is missing."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # with its parent
    os.closerange(3, 1024)  # or a queue would stay open when its reader closes it
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 28)
    for number in range(1 << 62):
        try:
            out.sendto(b"x" * 60, (devices.THERE.address, 1000 + flow + 8 * (number % 8)))
        except OSError:
            time.sleep(0.001)
        if number % burst == 0:
            time.sleep(0.01)  # or it takes all the time of an emulated CPU


@contextlib.contextmanager
def _senders(burst: int) -> Iterator[tuple[Callable[[int], None], list[int]]]:
    """Senders of bursts of so many packets: a function that signals them and waits until
    they stopped, and their process ids."""
    children: list[int] = []
    for flow in range(SENDERS):
        child = os.fork()
        if not child:
            _send_for_ever(flow, burst)
        children.append(child)

    def tell(number: int) -> None:
        for child in children:
            os.kill(child, number)
            if number != signal.SIGCONT:
                os.waitpid(child, os.WUNTRACED)

    try:
        yield tell, children
    finally:
        tell(signal.SIGKILL)


class Link:
    """HERE, set up and counted without a process per step."""

    def __init__(self, route: IPRoute) -> None:
        self.route = route
        self.is_tap = True
        self.index = 0

    def found(self) -> None:
        """Reads the index: the device was made, or moved here."""
        self.index = socket.if_nametoindex(devices.HERE.name)

    def attach(self, ring: int | None = None) -> None:
        """As devices.attach() does."""
        facts = {} if ring is None else {"txqlen": ring}
        if self.is_tap:
            facts["address"] = devices.HERE.mac
        self.set(state="up", **facts)
        self.route.tc("replace", QDISC, self.index, HANDLE, parent=ROOT)
        place = {"address": devices.HERE.address, "prefixlen": 24}
        self.route.addr("replace", index=self.index, **place)
        if self.is_tap:
            peer = {"dst": devices.THERE.address, "lladdr": devices.THERE.mac}
            permanent = 128
            self.route.neigh("replace", **peer, ifindex=self.index, state=permanent)

    def set(self, **facts: object) -> None:
        self.route.link("set", index=self.index, **facts)

    def _statistic(self, name: str) -> int:
        path = Path(f"/sys/class/net/{devices.HERE.name}/statistics/{name}")
        return int(path.read_text())

    def counters(self) -> devices.Counters:
        counts = {"packets": 0, "drop": 0, "qlen": 0}
        for qdisc in self.route.get_qdiscs(index=self.index):
            if qdisc["index"] == self.index and qdisc["parent"] == ROOT:
                counts = qdisc.get_attr("TCA_STATS")
        return devices.Counters(
            read=self._statistic("tx_packets"),
            lost_at_ring=self._statistic("tx_dropped"),
            passed_by_qdisc=counts["packets"],
            qdisc_drops=counts["drop"],
            requeues=0,  # not read
            held=counts["qlen"],
        )


class Abuser:
    """A tap, and the operations on it. Each may fail: the kernel refuses it, or there is
    no queue (IndexError)."""

    def __init__(self, env: Env, seed: int) -> None:
        self.env = env
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.link = Link(IPRoute())
        self.loaded = False
        self.helper: devices.Reader | None = None  # one more queue's
        self.senders: list[int] = []
        self.load()
        self.frees_twice = _tap.frees_twice(env)
        self.create(USUAL_FLAGS)

    def load(self) -> None:
        direct = f"direct_call={self.random.randrange(2)}"
        self.env.run("insmod", str(TOOLS / self.env.module.name), direct)
        self.loaded = True

    def create(self, flags: int) -> None:
        self.tap = _tap.Tap(flags)
        self.detached: list[int] = []
        self.tap.open_queue()
        self.tap.flags &= ~FLAGS["IFF_TUN_EXCL"]  # further queues, later readers
        self.link.is_tap = bool(flags & tun.IFF_TAP)
        self.link.found()
        self.link.attach(ring=100)

    def close(self) -> None:
        """Closes every queue, which deletes the device."""
        self.end_helper()
        while self.tap.queues:
            self.tap.close_queue(0)

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
        """With random flags; the kernel refuses some combinations."""
        self.close()
        flags = self.random.choice((tun.IFF_TUN, tun.IFF_TAP))
        for flag in FLAGS.values():
            flags |= flag * (self.random.random() < 0.3)
        try:
            self.create(flags)
        except OSError:
            self.create(USUAL_FLAGS)
            raise

    def set_flags_again(self) -> None:
        """Opens queues whose flags differ from the device's."""
        fd = os.open("/dev/net/tun", os.O_RDWR)
        try:
            for flag in self.random.sample(sorted(FLAGS.values()), 3):
                with contextlib.suppress(OSError):
                    other = tun.request(self.tap.flags ^ flag, devices.HERE.name)
                    fcntl.ioctl(fd, tun.TUNSETIFF, other)
        finally:
            os.close(fd)

    def persist(self) -> None:
        """Closes every queue of a persistent device, and opens one."""
        self.tap.set_persistent(True)
        self.close()
        self.detached = []
        self.tap.open_queue()
        self.tap.set_persistent(False)

    def add_reader(self) -> None:
        """Another process reads one more queue, with read() or by vhost-net."""
        if self.helper is None:
            how: tuple[str, ...] = self.random.choice(((), ("--vhost",), ("--paused",)))
            options = ("--link-us", "20", *how)
            flags, name = USUAL_FLAGS | tun.IFF_NO_PI, devices.HERE.name
            queue = tun.open_queue(flags, name, options=0)
            reader = self.env.helper("reader")
            self.helper = devices.Reader(reader, "sink", [queue], options)

    def signal_reader(self) -> None:
        if self.helper is not None:
            number = self.random.choice((signal.SIGSTOP, signal.SIGCONT))
            os.kill(self.helper.pid, number)

    def end_helper(self) -> None:
        """Kills the other reader, stopped or not, which closes its queue."""
        if self.helper is not None:
            self.helper.kill()
            self.helper = None

    def resize(self) -> None:
        length = self.random.choice((1, 2, 8, 50, 100, 500, 1000, 10000))
        self.link.set(txqlen=length)

    def mtu(self) -> None:
        size = self.random.choice((68, 576, 1500, 9000))
        self.link.set(mtu=size)

    def qdisc(self) -> None:
        kind = self.random.choice(QDISCS)
        if kind == "pfifo_fast" and self.frees_twice:
            kind = "pfifo"  # the other would panic this kernel, without sluice too
        self.link.route.tc("replace", kind, self.link.index, parent=ROOT)

    def down_and_up(self) -> None:
        self.link.set(state="down")
        self.read_some()
        self.link.set(state="up")

    def rename(self) -> None:
        self.link.set(state="down")
        for name in (OTHER_NAME, devices.HERE.name):
            self.link.set(ifname=name)
        self.link.set(state="up")

    def move(self) -> None:
        """To another network namespace, and back."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{ELSEWHERE}", os.O_RDONLY)
        try:
            self.link.set(net_ns_fd=there)
            with system.inside(there), IPRoute() as route:
                index = socket.if_nametoindex(devices.HERE.name)
                self.read_some()
                route.link("set", index=index, net_ns_fd=home)
        finally:
            os.close(home)
            os.close(there)
        self.link.found()
        self.link.attach()

    def offload(self) -> None:
        flags = self.random.choice((0, 1, 7, 0x1F))
        fcntl.ioctl(self.tap.queues[0], TUNSETOFFLOAD, flags)

    def send_buffer(self) -> None:
        size = self.random.choice((1, 4096, 1 << 30))
        fcntl.ioctl(self.tap.queues[0], _tap.TUNSETSNDBUF, struct.pack("i", size))

    def set_small(self) -> None:
        """One of the driver's other settings."""
        setting = self.random.choice(sorted(SMALL_SETTINGS.values()))
        value = struct.pack("i", self.random.choice((0, 1, 10, 12)))
        fcntl.ioctl(self.tap.queues[0], setting, value)

    def filter(self) -> None:
        """Attaches a program that keeps so many bytes of each packet, or none."""
        with choosing(self.random.choice((0, 20, 0xFFFF))) as program:
            kept = struct.pack("i", program)
            fcntl.ioctl(self.tap.queues[0], TUNSETFILTEREBPF, kept)
            self.read_some()
            fcntl.ioctl(self.tap.queues[0], TUNSETFILTEREBPF, struct.pack("i", -1))

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
                stall_ms=self.random.choice((1, SHORT_STALL_MS, 100)),
                low_percent=self.random.randrange(96),
                limit=self.random.choice((0, 1, 30, 5000)),
                target_us=self.random.choice((0, 1, 500, 100000)),
            )

    def set_device(self, **attrs: int) -> None:
        with Client() as client:
            client.set_device(self.link.index, **attrs)

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
        with _ftrace.tracer("function"):
            self.read_some()

    def probe(self) -> None:
        """A kprobe on the same function."""
        with _ftrace.probe("p"):
            self.read_some()

    def patch(self) -> None:
        """A live patch of the same function."""
        if _patch.ALL.exists():
            with _patch.patched(self.env):
                self.read_some()

    def starve(self) -> None:
        """Other operations, while allocations fail here and in the senders."""
        starving = [os.getpid(), *self.senders]
        with _memory.refused_memory(starving, self.random.choice((1, 5, 20))):
            for name in self.random.choices(self.STARVING, k=3):
                try:
                    getattr(self, name)()
                except Exception:  # without memory anything may fail
                    self.refused["starve"] += 1
        self.loaded = MODULE.exists()
        self.down_and_up()  # a device that got no memory is served from then on

    def read_some(self) -> None:
        for place in range(len(self.tap.queues)):
            if self.random.randrange(3):
                self.tap.read(place, most=self.random.choice((1, 30, 2000)))

    def pause(self) -> None:
        """Sometimes longer than the stall time."""
        time.sleep(self.random.choice((0.001, 0.003, 0.01, 0.3)))

    @staticmethod
    def lacks() -> list[str]:
        """Operations that this kernel does not offer."""
        lacking = [] if _memory.can_be_refused() else ["starve"]
        return lacking if has_ftrace() else [*lacking, *Abuser.RARE]

    # One sequence.

    RARE = ("patch", "trace", "probe")  # they need ftrace, and take seconds each
    SELDOM = ("recreate", "move", "reload", "unplug_cpu")
    SELDOM += ("add_reader", "end_helper", "set_small", "set_flags_again")
    OFTEN = ("read_some", "pause")
    USUAL = ("open_queue", "close_queue", "detach", "attach", "persist", "resize")
    USUAL += ("mtu", "qdisc", "down_and_up", "rename", "offload", "send_buffer")
    USUAL += ("steer", "filter", "switch", "tune", "signal_reader", "starve")
    # These leave a usable device wherever they fail.
    STARVING = ("open_queue", "close_queue", "detach", "attach", "resize", "mtu")
    STARVING += ("qdisc", "offload", "steer", "switch", "tune", "reload")

    def play(self) -> None:
        weights: dict[str, float] = dict.fromkeys(self.RARE, 0.2)
        weights.update(dict.fromkeys(self.SELDOM, 1))
        weights.update(dict.fromkeys(self.USUAL, 4))
        weights.update(dict.fromkeys(self.OFTEN, 12))
        weights.update(dict.fromkeys(self.lacks(), 0))
        for name in self.random.choices(
            list(weights), list(weights.values()), k=OPERATIONS
        ):
            try:
                self.timed(name)
                self.done[name] += 1
            except (OSError, RouteError, NetlinkError, WorkloadError, IndexError):
                self.refused[name] += 1

    def timed(self, name: str) -> None:
        """Calls the method of this name and measures its time."""
        started = time.monotonic()
        try:
            getattr(self, name)()
        finally:
            self.seconds[name] += time.monotonic() - started

    def read_flags(self) -> int:
        """The flags of the device as they are now; 0 without a device."""
        if not self.tap.queues:
            return 0
        answer = fcntl.ioctl(self.tap.queues[0], TUNGETIFF, bytes(40))
        return int.from_bytes(answer[16:18], sys.byteorder)

    def put_in_order(self) -> None:
        """Sets the device up as it was made first."""
        if LAST_CPU.exists() and LAST_CPU.read_text().strip() != "1":
            LAST_CPU.write_text("1")
        if not self.loaded:
            self.load()
        self.end_helper()
        while self.detached:
            self.attach()
        if self.read_flags() != USUAL_FLAGS | tun.IFF_NO_PI:
            self.close()
            with contextlib.suppress(RouteError):
                self.link.route.link("del", index=self.link.index)
            self.create(USUAL_FLAGS)
        while len(self.tap.queues) > 1:
            self.tap.close_queue(1)
        for setting, value in ((_tap.TUNSETSNDBUF, 1 << 30), (TUNSETCARRIER, 1)):
            fcntl.ioctl(self.tap.queues[0], setting, struct.pack("i", value))
        self.link.set(mtu=1500, txqlen=100)
        self.link.attach()
        _tap.wait_for_carrier(self.env)
        self.set_device(on=1, stall_ms=60000, low_percent=50, limit=0, target_us=0)

    def check(self) -> None:
        """The qdisc empties, a burst loses nothing, each stop was followed by a wake."""
        self.wait_until_empty()
        # A stall ends when 300 packets were read, and a queue of a device that stalled
        # may begin with a debt, which stalls once more: see kmod/flow.c.
        for _ in range(3):
            stalls = read_queue().stalls
            for packets in (300, 90, 90, 90, 90):
                send(packets)
                self.wait_until_empty()
            if read_queue().stalls == stalls:
                break
        before = self.link.counters()
        already = self.tap.read_count
        sent = send(300)

        def settled() -> bool:
            gone = self.link.counters() - before
            return self.tap.read_all() == 0 and gone.read + gone.qdisc_drops >= sent

        with contextlib.suppress(AssertionError):  # the counters tell more
            self.env.wait_for(settled, f"{sent} packets gone", seconds=60)
        now = self.link.counters() - before
        arrived = now.read + now.qdisc_drops == sent
        assert now.lost_at_ring == 0 and arrived, (now, read_queue())
        assert now.read == self.tap.read_count - already, (now, self.tap.read_count)
        (queue,) = wait_until_open(self.env)
        assert queue.stops == queue.wakes_timer + queue.wakes_other, queue
        assert queue.stops, "300 packets did not fill a ring of 100: proves nothing"

    def wait_until_empty(self) -> None:
        def drained() -> bool:
            return self.tap.is_drained(self.link.counters)

        self.env.wait_for(drained, "qdisc and rings empty", seconds=60)

    def check_stock(self) -> None:
        """Without the module the driver drops what does not fit into a ring of 100. The
        reader frees slots in batches, so up to a batch less may fit."""
        unload()
        self.loaded = False
        before = self.link.counters()
        send(130)
        now = self.link.counters() - before
        assert now.held == 0 and 30 <= now.lost_at_ring < 30 + BATCH, now
        assert self.tap.read_all() + now.lost_at_ring == 130, now
        self.load()


def _use_copies(module: Path) -> None:
    """For starve(): of static tools and the module, in memory. Without memory, 9p may
    fail to close a file of a share; the next that gets its number cannot be opened."""
    TOOLS.mkdir()
    for path in ("/bin/busybox", module):
        shutil.copy(path, TOOLS)
    for name in ("insmod", "rmmod"):
        (TOOLS / name).symlink_to("busybox")
    os.environ["PATH"] = f"{TOOLS}:{os.environ['PATH']}"


def _read_taken_kb() -> tuple[int, int]:
    """Memory in use, measured in two ways: before f227f0faf63b (5.14) slabs count what
    kfree_rcu() gave back in large pieces."""
    return _memory.read_kb("SUnreclaim"), -_memory.read_kb("MemAvailable")


@scenario(deadline=24 * 3600, on="newest-native")
def random_sequences_leave_a_device_that_flows(env: Env) -> None:
    seed = int(os.environ.get("SLUICE_ABUSE_SEED", "1"))
    usual = SEQUENCES // env.patience
    sequences = int(os.environ.get("SLUICE_ABUSE_SEQUENCES", usual))
    devices.silence_first_netns()
    env.run("modprobe", "vhost_net")
    _use_copies(env.module)
    path = f"/run/netns/{devices.make_netns(ELSEWHERE)}"
    # As `ip netns del` does: after starve() ip may not be loaded from the share.
    env.defer(os.unlink, path)
    env.defer(env.run, "busybox", "umount", "-l", path)
    env.defer(unload)
    abuser = Abuser(env, seed)
    tell, abuser.senders = env.enter(_senders(env.fewer(100)))
    taken_kb = []
    where = env.enter(WHERE.open("w"))
    # In the thread itself: another one would read frames that change meanwhile.
    faulthandler.register(signal.SIGALRM, file=where)
    env.defer(faulthandler.unregister, signal.SIGALRM)  # before its file is closed
    env.defer(signal.setitimer, signal.ITIMER_REAL, 0)
    env.defer(RCU_EXPEDITED.write_text, "0")
    for number in range(seed, seed + sequences):
        abuser.random.seed(number)
        counts = {"done": abuser.done, "refused": abuser.refused}
        facts = {"seed": number, **counts, "seconds": abuser.seconds}
        facts["lacks"] = abuser.lacks()
        write_json(RESULT, {**facts, "sequences": number - seed})
        signal.setitimer(signal.ITIMER_REAL, LONG * env.patience)
        # Grace periods take seconds on an emulated kernel that watches itself. Short ones
        # are the harder test: memory is freed, and used again, sooner.
        RCU_EXPEDITED.write_text(str(int(number % PATIENT_EVERY != 0)))
        tell(signal.SIGCONT)
        abuser.play()
        tell(signal.SIGSTOP)
        abuser.timed("put_in_order")
        abuser.timed("check")
        if (number - seed) % STOCK_EVERY == 0:
            abuser.timed("check_stock")
        taken_kb.append(_read_taken_kb())
    first, last = taken_kb[len(taken_kb) // 3], taken_kb[-1]
    grown = _memory.grown_kb(first, last)
    write_json(RESULT, {**facts, "sequences": sequences, "grown_kb": grown})
    _memory.assert_given_back(grown)
    never = [name for name in abuser.refused if not abuser.done[name]]
    assert sequences < ENOUGH or not never, f"always refused: {never}"
    bites = abuser.done["starve"] < 20 or abuser.refused["starve"]
    assert bites, "memory was never refused: proves nothing"
