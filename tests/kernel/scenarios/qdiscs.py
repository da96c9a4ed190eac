# SPDX-License-Identifier: GPL-2.0-or-later
"""Common qdiscs: nothing is lost at the ring."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from lab.guest.devices import HERE, Reader
from lab.guest.devices import sink as open_sink
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios import _traffic as net

FREED = Path("/sys/kernel/tracing/events/skb/kfree_skb")
HISTOGRAM = "hist:keys=location"
ALL_TO_THE_CLASS = "filter add parent 1: matchall flowid 1:1"
# Commands of tc without their device. Each rate but htb's is less than what the senders
# make, and more than what a slowed down reader takes: the shaper waits, and the ring
# fills.
FURTHER: dict[str, tuple[str, ...]] = {
    "cake with a bandwidth": ("qdisc replace root cake bandwidth 20mbit",),
    "choke": ("qdisc replace root choke limit 1000 bandwidth 20mbit",),
    "cake": ("qdisc replace root cake",),
    "codel": ("qdisc replace root codel",),
    "drr": (
        "qdisc replace root handle 1: drr",
        "class add parent 1: classid 1:1 drr",
        ALL_TO_THE_CLASS,
    ),
    "ets": ("qdisc replace root ets bands 3 strict 1",),
    "fq": ("qdisc replace root fq",),
    "fq_pie": ("qdisc replace root fq_pie",),
    "hfsc": (
        "qdisc replace root handle 1: hfsc default 1",
        "class add parent 1: classid 1:1 hfsc ls m2 20mbit ul m2 20mbit",
    ),
    "hhf": ("qdisc replace root hhf",),
    "htb with fq_codel": (
        "qdisc replace root handle 1: htb default 10",
        "class add parent 1: classid 1:10 htb rate 10gbit",
        "qdisc replace parent 1:10 fq_codel",
    ),
    "netem": ("qdisc replace root netem delay 1ms 1ms limit 10000",),
    "pie": ("qdisc replace root pie",),
    "prio": ("qdisc replace root prio",),
    "qfq": (
        "qdisc replace root handle 1: qfq",
        "class add parent 1: classid 1:1 qfq weight 1",
        ALL_TO_THE_CLASS,
    ),
    "red": ("qdisc replace root red limit 400000 avpkt 100 bandwidth 20mbit",),
    "sfb": ("qdisc replace root sfb",),
    "sfq": ("qdisc replace root sfq perturb 1",),
    "skbprio": ("qdisc replace root skbprio",),
    "tbf": ("qdisc replace root tbf rate 20mbit burst 10kb limit 100kb",),
    "tbf with fq_codel": (
        "qdisc replace root handle 1: tbf rate 20mbit burst 10kb limit 100kb",
        "qdisc replace parent 1: fq_codel",
    ),
}


def _count_freed(env: Env) -> None:
    """Counts freed packets from now on, until the scenario's end."""
    try:
        (FREED / "trigger").write_text(HISTOGRAM)
    except OSError:
        env.skip("this kernel makes no histograms of its trace events")
    env.defer((FREED / "trigger").write_text, "!" + HISTOGRAM)


@functools.cache
def _read_place(function: str) -> range:
    """The addresses of a function of a module."""
    lines = Path("/proc/kallsyms").read_text().splitlines()
    places = {line.split()[2]: int(line.split()[0], 16) for line in lines}
    start = places[function]
    return range(start, min(place for place in places.values() if place > start))


def _freed_by_the_driver() -> int:
    """Packets that tun dropped. The device's tx_dropped counts more: also those that the
    core's noop qdisc drops while a qdisc is replaced."""
    place = _read_place("tun_net_xmit")
    said = (FREED / "hist").read_text()
    found = re.findall(r"location: +(\w+).*hitcount: +(\d+)", said)
    return sum(int(count) for where, count in found if int(where, 0) in place)


def _loses_nothing(env: Env, reader: Reader) -> None:
    """Through the qdisc that is attached now."""
    net.wait_until_empty(env)
    before, stops = net.counters(), net.read_queue().stops
    with net.Flood(senders=3) as senders:
        net.wait_for_stops(env, reader, more_than=stops + 5)
        sent = senders.end()
    reader.resume()  # at full pace
    after = net.wait_until_read(env, net.gone(before) + sent)
    assert after.lost_at_ring == before.lost_at_ring, (before, after)
    assert net.gone(after) - net.gone(before) == sent, (before, after, sent)


@scenario(deadline=180)
def common_qdiscs_lose_nothing(env: Env) -> None:
    for kind in ("fq_codel", "pfifo_fast", "pfifo"):
        with net.case(env, kind):
            env.load("stall_ms=60000")
            reader = net.sink(env, ring=100)
            net.set_qdisc(env, kind)
            _loses_nothing(env, reader)


@scenario
def mq_with_fq_codel_loses_nothing(env: Env) -> None:
    env.load("stall_ms=60000")
    reader = net.sink(env, ring=100, queues=2)
    tc = ("tc", "qdisc", "replace", "dev", HERE.name)
    env.run(*tc, "root", "handle", "1:", "mq")
    for queue in ("1:1", "1:2"):
        env.run(*tc, "parent", queue, "fq_codel")
    net.assert_flood_is_read(env, reader)


@scenario
def noqueue_between_two_others_is_stock(env: Env) -> None:
    """The ring drops packets only while noqueue is attached."""
    env.load("stall_ms=60000")
    reader = net.sink(env, ring=100)
    net.set_qdisc(env, "fq_codel")
    _loses_nothing(env, reader)
    net.set_qdisc(env, "noqueue")
    stops = net.read_queue().stops
    with net.Flood(senders=3) as senders:
        env.wait_for(lambda: net.counters().lost_at_ring > 0, "noqueue drops at the ring")
        senders.end()
    assert net.read_queue().stops == stops, "a queue without a qdisc was stopped"
    net.set_qdisc(env, "fq")
    _loses_nothing(env, reader)


@scenario
def change_under_load_loses_nothing_at_the_ring(env: Env) -> None:
    env.load("stall_ms=60000", "default_on=0")
    reader = net.sink(env, ring=100)
    _count_freed(env)
    with net.Flood(senders=3) as senders:
        env.wait_for(_freed_by_the_driver, "stock drops at the ring", 30)
        net.set_device(on=1)
        net.wait_for_stops(env, reader, more_than=5)
        before = _freed_by_the_driver()
        for kind in ("fq", "pfifo", "cake", "pfifo_fast", "fq_codel") * 2:
            stops = net.read_queue().stops
            net.set_qdisc(env, kind)
            net.wait_for_stops(env, reader, more_than=stops + 5)
        senders.end()
    net.wait_until_empty(env)
    assert _freed_by_the_driver() == before, (before, net.counters(), net.read_queue())
    _loses_nothing(env, reader)


def _attach_further(env: Env, kind: str) -> bool:
    """Whether this kernel has the qdisc."""
    for command in FURTHER[kind]:
        thing, verb, *what = command.split()
        try:
            env.run("tc", thing, verb, "dev", HERE.name, *what)
        except AssertionError as error:
            if "qdisc not found" in str(error) or "kind is unknown" in str(error):
                return False
            raise
    return True


@scenario(deadline=700, on="newest")
def further_qdiscs_lose_nothing(env: Env) -> str:
    """Each with a device of its own; what is wrong with one does not hide the others."""
    env.load("stall_ms=60000")
    lacks: list[str] = []
    wrong: list[str] = []
    for kind in FURTHER:
        with open_sink(env.helper("reader"), "sluice", ring=100) as reader:
            try:
                if _attach_further(env, kind):
                    _loses_nothing(env, reader)
                else:
                    lacks.append(kind)
            except AssertionError as error:
                wrong.append(f"{kind}: {error}")
    assert not wrong, wrong
    if lacks:
        env.skip(f"this kernel has no {', '.join(lacks)}; the others lose nothing")
    return ", ".join(FURTHER)
