# SPDX-License-Identifier: GPL-2.0-or-later
"""Mixed traffic through readers that pause and die.

`make soak` plays half an hour, make test a few seconds. Each lane is a device in a
network namespace of its own, with senders and a ping; RESULT has what was counted.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lab.guest import devices
from lab.guest.job import write_json
from lab.guest.latency import Latency, percentile, ping
from lab.guest.scenarios import Env, scenario
from sluice.netlink import Queue
from tests.kernel.scenarios._memory import assert_given_back, grown_kb, read_kb
from tests.kernel.scenarios._traffic import read_queues, wait_until_empty

SECONDS = 15.0  # unless SLUICE_SOAK_SECONDS says otherwise
SEED = 1
PAUSES = (0.002, 0.15)  # seconds, of a reader that lives
DEATHS = (0.5, 2.0)  # seconds without a reader
PING_SECONDS = 0.5  # between two of them
MEMORY_EVERY = 60.0
RESULT = Path("/out/soak.json")


def paced(env: Env, option: str, microseconds: int) -> tuple[str, str]:
    """A reader's options: its time per packet.

    A debug kernel has slower senders, so its readers are slower, too.
    """
    return option, str(microseconds * env.patience)


@dataclass(frozen=True)
class Plan:
    """How a lane is set up."""

    name: str  # of its namespace, too
    qdisc: str
    queues: int = 1
    tun: bool = False
    vhost: bool = False
    dies: bool = False  # its reader; the device is persistent
    senders: int = 1
    pace: tuple[str, int] = ("--link-us", 100)  # of its reader, per packet

    @property
    def device(self) -> devices.Device:
        mac = "" if self.tun else devices.HERE.mac
        return replace(devices.HERE, netns=self.name, mac=mac)


PLANS = (
    Plan("fq_codel", "fq_codel", senders=2),
    Plan("cake", "cake", pace=("--burn-us", 50)),
    Plan("vhost", "fq", vhost=True),
    Plan("queues", "mq", queues=3, senders=3, pace=("--link-us", 300)),
    Plan("tun", "pfifo_fast", tun=True),
    Plan("dying", "fq_codel", dies=True),
)


@dataclass
class Tally:
    """What was counted in a lane."""

    name: str
    qdisc: str
    reader: str
    read: int = 0
    lost_at_ring: int = 0
    qdisc_drops: int = 0
    stops: int = 0
    stalls: int = 0
    longest_stop_ms: float = 0.0
    pauses: int = 0
    deaths: int = 0
    ping_p50_ms: float | None = None
    ping_p99_ms: float | None = None
    unaccounted: int = 0

    def count(self, now: devices.Counters, queues: list[Queue], pinged: Latency) -> None:
        self.read = now.read
        self.lost_at_ring = now.lost_at_ring
        self.qdisc_drops = now.qdisc_drops
        self.unaccounted = now.passed_by_qdisc - now.read - now.lost_at_ring
        self.stops = sum(queue.stops for queue in queues)
        self.stalls = sum(queue.stalls for queue in queues)
        longest = max(queue.longest_stop_ns for queue in queues)
        self.longest_stop_ms = round(longest / 1e6, 1)
        self.ping_p50_ms = percentile(pinged.times_ms, 50)
        self.ping_p99_ms = percentile(pinged.times_ms, 99)
        for queue in queues:
            assert queue.stops == queue.wakes_timer + queue.wakes_other, queue
            assert queue.state in ("open", "stalled"), queue


# A blocking sender with several flows and packets of several sizes. A device without
# a reader gives errors.
SEND = f"""
import socket, time
flows = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
number = 0
while True:
    number += 1
    try:
        size = (60, 200, 1400)[number % 3]
        flows[number % 4].sendto(b"x" * size, ("{devices.THERE.address}", 9))
    except OSError:
        time.sleep(0.01)
"""


class Lane:
    """A device, its reader, its senders."""

    def __init__(self, env: Env, plan: Plan) -> None:
        self.env, self.plan = env, plan
        by = "vhost-net" if plan.vhost else "process"
        self.tally = Tally(plan.name, plan.qdisc, by)
        env.enter(devices.netns(plan.name))
        if plan.dies:
            add = ("ip", "tuntap", "add", "dev", devices.HERE.name, "mode", "tap")
            env.run(*plan.device.command(*add))
        self.open_reader()
        devices.attach(plan.device, devices.THERE, plan.qdisc, ring=500)
        self.senders = []
        for _ in range(plan.senders):
            command = plan.device.command(sys.executable, "-c", SEND)
            self.senders.append(subprocess.Popen(command))
            env.defer(self.senders[-1].kill)
        self.end_ping = env.enter(ping(plan.device, devices.THERE, interval=PING_SECONDS))

    def open_reader(self) -> None:
        plan = self.plan
        read = [plan.device] * plan.queues
        how = ("sink", read, "sluice", paced(self.env, *plan.pace))
        helper = self.env.helper("reader")
        opened = devices.reader(helper, *how, vhost=plan.vhost)
        self.reader: devices.Reader = self.env.enter(opened)

    def trouble(self, choose: random.Random) -> None:
        """The reader pauses, is stopped, or is killed and replaced."""
        if self.plan.dies:
            self.tally.deaths += 1
            self.die(choose.random() < 0.5, choose.uniform(*DEATHS))
            return
        self.tally.pauses += 1
        self.reader.pause()
        time.sleep(choose.uniform(*PAUSES))
        self.reader.resume()

    def die(self, really: bool, seconds: float) -> None:
        if really:
            self.reader.kill()
            time.sleep(seconds)
            self.open_reader()
            return
        os.kill(self.reader.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.reader.pid, signal.SIGCONT)

    def fill(self) -> None:
        """Pauses the reader until the queue was stopped at least once."""

        def stops() -> int:
            return sum(queue.stops for queue in read_queues(self.plan.device))

        if stops():
            return
        self.reader.pause()
        what = f"{self.plan.name}: the queue is stopped"
        self.env.wait_for(stops, what, seconds=60)
        self.reader.resume()

    def end(self) -> Tally:
        self.fill()
        for sender in self.senders:
            sender.kill()
            sender.wait()
        pinged = self.end_ping()
        device = self.plan.device
        wait_until_empty(self.env, device, seconds=60)
        now = devices.read_counters(device)
        self.tally.count(now, read_queues(device), pinged)
        return self.tally


def read_memory() -> dict[str, int]:
    """Slabs in use, and memory that is available."""
    return {"slab_kb": read_kb("SUnreclaim"), "available_kb": read_kb("MemAvailable")}


def _make_trouble(lanes: list[Lane], seconds: float) -> list[dict[str, int]]:
    """For so many seconds; returns the memory in use over time."""
    choose = random.Random(SEED)
    started = time.monotonic()
    memory: list[dict[str, int]] = []
    while (elapsed := time.monotonic() - started) < seconds:
        if elapsed >= len(memory) * MEMORY_EVERY:
            memory.append({"at_s": round(elapsed), **read_memory()})
        choose.choice(lanes).trouble(choose)
        time.sleep(choose.uniform(0, 0.5))
    return memory


@scenario(deadline=7200, on="newest-native")
def mixed_traffic_loses_nothing_but_in_stalls(env: Env) -> str:
    seconds = float(os.environ.get("SLUICE_SOAK_SECONDS", SECONDS))
    env.run("modprobe", "vhost_net")
    before = read_memory()
    env.load()
    lanes = [Lane(env, plan) for plan in PLANS]
    memory = _make_trouble(lanes, seconds)
    tallies = [lane.end() for lane in lanes]
    env.clean_up()
    facts = {
        "seconds": seconds,
        "lanes": [asdict(tally) for tally in tallies],
        "memory": [{"at_s": -1, **before}, *memory, {"at_s": seconds, **read_memory()}],
    }
    write_json(RESULT, facts)
    for tally in tallies:
        assert tally.stops, tally
        if not tally.deaths:  # a reader that died took its ring along
            assert tally.unaccounted == 0, tally
            assert tally.stalls or not tally.lost_at_ring, tally
    # The first minute fills caches.
    first, last = (
        (one["slab_kb"], -one["available_kb"]) for one in (memory[:2][-1], memory[-1])
    )
    assert_given_back(grown_kb(first, last))
    assert not all(tally.stalls for tally in tallies), "stalls everywhere prove nothing"
    counts = {
        what: sum(getattr(tally, what) for tally in tallies)
        for what in ("read", "stops", "stalls")
    }
    return f"packets and queues: {counts}"
