# SPDX-License-Identifier: GPL-2.0-or-later
"""What most scenarios use: a device with a reader, senders, and counters."""

from __future__ import annotations

import contextlib
import functools
import itertools
import socket
import time
from collections.abc import Iterator
from typing import Any, Callable, Protocol

from lab.guest.devices import HERE, THERE, Counters, Reader, ask_module, read_counters
from lab.guest.devices import Device as Link
from lab.guest.devices import sink as open_sink
from lab.guest.program import SO_SNDBUFFORCE
from lab.guest.scenarios import Env
from sluice.netlink import Device, Queue
from tests.kernel.scenarios._threads import Repeated

DISCARD_PORT = 9
BURST = 200  # packets, of a sender that rests
KEEPS_UP = 0.5  # seconds without a stop
STALL_MS = 250  # the default
# Of a stop: an emulated machine on a busy host delays timers.
LONGEST_STOP_NS = 8 * STALL_MS * 1_000_000
STOPS_OF_A_DEAD_READER = 5  # at most, if each timer is late: see kmod/queue.c
STOCK_SECONDS, HELD_SECONDS = 1.0, 3.0
# Of stock's count. On an emulated or busy machine a single play may differ by a factor of
# two; SECURITY.md has what was measured.
SHARE = 0.25


def sink(env: Env, ring: int = 1000, **how: Any) -> Reader:
    """HERE with fq_codel (mq if it has several queues), until the scenario's end.

    how: as devices.sink() takes it.
    """
    return env.enter(open_sink(env.helper("reader"), "sluice", ring=ring, **how))


@contextlib.contextmanager
def case(env: Env, name: str) -> Iterator[None]:
    """One of several cases of a scenario: named if it fails, and cleaned up."""
    try:
        yield
    except AssertionError as wrong:
        raise AssertionError(f"{name}: {wrong}") from wrong
    finally:
        env.clean_up()


def set_qdisc(env: Env, kind: str) -> None:
    env.run("tc", "qdisc", "replace", "dev", HERE.name, "root", kind)


def ifindex() -> int:
    return socket.if_nametoindex(HERE.name)


def read_device(of: Link = HERE) -> Device:
    return ask_module(of, lambda client, index: client.device(index))


def read_queues(of: Link = HERE) -> list[Queue]:
    return ask_module(of, lambda client, index: client.queues(index))


def read_queue(of: Link = HERE) -> Queue:
    return read_queues(of)[0]


def wait_until_open(env: Env, of: Link = HERE) -> list[Queue]:
    """After everything was read: the last packets may have stopped a queue, which opens
    when its timer expires."""

    def opened() -> list[Queue]:
        queues = read_queues(of)
        return queues if all(queue.state == "open" for queue in queues) else []

    try:
        return env.wait_for(opened, "every queue open")
    except AssertionError as late:
        raise AssertionError(f"{late}: {read_queues(of)}") from None


def set_device(of: Link = HERE, **attrs: int) -> None:
    ask_module(of, lambda client, index: client.set_device(index, **attrs))


def compare(count: Callable[[], int], *names: str) -> str:
    """What is counted while these devices are off and on, by turns. On must reach more
    than SHARE of off: how much more is measured by the benchmarks."""
    counted = {0: 0, 1: 0}
    for on in (0, 1, 0, 1):
        for name in names:
            set_device(Link(name, "", ""), on=on)
        counted[on] += count()
    stops = sum(q.stops for name in names for q in read_queues(Link(name, "", "")))
    assert stops > 0, "no queue was ever stopped: proves nothing"
    off, on = counted[0], counted[1]
    assert on > SHARE * off, counted
    return f"stock {off}, sluice {on}: {on / max(off, 1):.2f}"


def counters() -> Counters:
    return read_counters(HERE)


def send(packets: int, to: Link = THERE) -> int:
    """Sends exactly so many packets to the peer; never waits for socket memory."""
    return send_over_flows(packets, flows=1, to=to)


def send_over_flows(packets: int, flows: int = 64, to: Link = THERE) -> int:
    """The same number over each of many flows, so that every queue gets some."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 28)
        for number in range(packets):
            out.sendto(b"x" * 60, (to.address, DISCARD_PORT + number % flows))
    return packets


class Slowing(Protocol):
    """A reader, in a process or in a thread."""

    def slow_down(self) -> None: ...


class Flood:
    """Blocking senders, each in a thread of its own, until end().

    flows: of each sender, used in turn; rest: seconds after each BURST packets.
    """

    def __init__(self, senders: int = 2, flows: int = 1, rest: float = 0.0) -> None:
        self._rest = rest
        self._sent = [0] * senders
        self._sockets = [self.open_flow() for _ in range(senders * flows)]
        cycles = [itertools.cycle(self._sockets[n::senders]) for n in range(senders)]
        self._threads = Repeated(
            *(functools.partial(self._send, n, flow) for n, flow in enumerate(cycles))
        )

    def open_flow(self) -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send_one(self, out: socket.socket) -> int:
        """How many packets were made: 0 if the kernel refused it."""
        try:
            out.sendto(b"x" * 60, (THERE.address, DISCARD_PORT))
        except OSError:
            return 0
        return 1

    def _send(self, sender: int, flows: Iterator[socket.socket]) -> None:
        self._sent[sender] += self.send_one(next(flows))
        if self._rest and self._sent[sender] % BURST == 0:
            time.sleep(self._rest)

    @property
    def sent(self) -> int:
        return sum(self._sent)

    def wait_for_more(self, env: Env, packets: int, what: str) -> None:
        """Until so many more packets were sent."""
        before = self.sent
        env.wait_for(lambda: self.sent > before + packets, what)

    def end(self) -> int:
        """How many packets were sent."""
        self._threads.end()
        for out in self._sockets:
            out.close()
        return self.sent

    def __enter__(self) -> Flood:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def read_stops(index: int | None = None) -> int:
    """How often the queue with this index was stopped; by default, all queues."""
    return sum(queue.stops for queue in read_queues() if index in (None, queue.id))


def wait_for_stops(
    env: Env, reader: Slowing, more_than: int = 0, index: int | None = None
) -> None:
    """Until read_stops() is larger than that.

    On a busy host senders may be slower than the reader: it is slowed down until the
    ring fills.
    """
    seen, until = -1, 0.0

    def stopped() -> bool:
        nonlocal seen, until
        stops, now = read_stops(index), time.monotonic()
        if stops == seen and now > until:
            reader.slow_down()
        if stops != seen or now > until:
            seen, until = stops, now + KEEPS_UP * env.patience
        return stops > more_than

    env.wait_for(stopped, "a queue is stopped", seconds=30)


def gone(now: Counters) -> int:
    """Packets read, or dropped by the ring or the qdisc."""
    return now.read + now.lost_at_ring + now.qdisc_drops


def wait_until_read(env: Env, packets: int) -> Counters:
    """Until so many packets are gone() and the qdisc holds none."""

    def done() -> Counters | None:
        now = counters()
        return now if gone(now) >= packets and not now.held else None

    return env.wait_for(done, f"{packets} packets read")


def assert_flood_loses_nothing(env: Env, reader: Slowing, senders: int) -> Counters:
    """Senders fill the ring again and again: it loses no packet, and each packet is
    read or dropped by the qdisc."""
    with Flood(senders=senders) as running:
        wait_for_stops(env, reader, more_than=20)
        sent = running.end()
    now = wait_until_read(env, sent)
    assert now.lost_at_ring == 0, now
    assert now.read + now.qdisc_drops == sent, (now, sent)
    return now


def assert_flood_is_read(env: Env, reader: Reader) -> None:
    """The same; and the reader has counted as many packets as the driver."""
    now = assert_flood_loses_nothing(env, reader, senders=3)
    got = sum(count["read"] for count in reader.pause())
    assert got == now.read, (got, now)


def ring_is_empty(of: Link = HERE) -> bool:
    """As the module tells it; True if it is not loaded."""
    try:
        return not any(queue.fill for queue in read_queues(of))
    except LookupError:
        return True


def wait_until_empty(env: Env, of: Link = HERE, seconds: float = 10.0) -> None:
    """Until the qdisc and the ring hold no packet. Without the module a reader that
    rests for 0.1 s looks as if it had read all."""

    def empty() -> bool:
        before = read_counters(of)
        time.sleep(0.1)
        after = read_counters(of)
        still = after.held == 0 and before.read == after.read
        return still and ring_is_empty(of)

    env.wait_for(empty, f"{of.name}: qdisc and ring empty", seconds)


def pausing(reader: Reader, rest: float, reads: float) -> Repeated:
    """The reader rests and reads, for so many seconds each, until it is left."""

    def rest_once() -> None:
        reader.pause()
        time.sleep(rest)
        reader.resume()

    return Repeated(rest_once, rest=reads)


def _flood_for(env: Env, seconds: float, stops: bool) -> int:
    """Senders that go on all the time; returns how many packets they sent."""
    with Flood(senders=2) as senders:
        if stops:
            env.wait_for(lambda: read_queue().stops > 0, "the first stop")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            senders.wait_for_more(env, 100, "senders go on")
            time.sleep(0.05)
        return senders.end()


def assert_senders_are_held_shortly(
    env: Env, reader: Reader, rests: Repeated | None = None
) -> str:
    """A flood to this reader while sluice is off and then on, with the default
    stall_ms: senders go on, and no packet is unaccounted for; rests: left at the end.
    """
    sent, read, rates = 0, 0, []
    for on, seconds in enumerate((STOCK_SECONDS, HELD_SECONDS)):
        set_device(on=on)
        begun = time.monotonic()
        more = _flood_for(env, seconds, stops=bool(on))
        took, now = time.monotonic() - begun, counters().read
        rates.append(f"{more / took:.0f} sent, {(now - read) / took:.0f} read")
        sent, read = sent + more, now
    queue = read_queue()
    if rests:
        rests.end()
    reader.resume()  # at full pace
    now = wait_until_read(env, sent)
    assert gone(now) == sent, (now, sent)
    assert 0 < queue.longest_stop_ns < LONGEST_STOP_NS, queue
    stop = f"longest stop {queue.longest_stop_ns / 1e6:.0f} ms, {queue.stalls} stalls"
    return f"{stop}; packets/s: stock {rates[0]}; sluice {rates[1]}"


def assert_flows(env: Env) -> None:
    """Packets that are sent now are read: the queue is not stuck."""
    wait_until_empty(env)
    before = counters()
    send(50)
    after = wait_until_read(env, gone(before) + 50)
    assert after.read > before.read, (before, after)


def assert_direct_senders_lose_nothing(
    env: Env, senders: int, packets: int, vhost: bool = False
) -> str:
    """Senders that bypass the qdisc send `packets` in all into a ring that fills. A slow
    kernel gets fewer packets and a smaller ring; it must stop more than once, then."""
    from lab.workloads import pktgen

    env.load("stall_ms=60000")
    sink(env, ring=500 // env.patience, vhost=vhost)
    each = env.fewer(packets) // senders
    names = env.enter(pktgen.senders(senders, packets=each))
    pktgen.start(names)
    results = pktgen.wait_ended(names, pktgen.END_SECONDS * env.patience)
    assert all(result.packets for result in results), "a sender sent nothing"
    sent = sum(result.attempts for result in results)
    now = wait_until_read(env, sent)
    assert (now.read, now.lost_at_ring) == (sent, 0), (now, sent)
    stops = read_queue().stops
    assert stops >= min(env.packets_divisor, 10), f"{stops} stops: too few prove nothing"
    return f"{sent} packets, {stops} stops"


def assert_lossless_again(env: Env) -> None:
    """After a stall: packets flow, and none of 2000 is lost."""
    assert_flows(env)
    set_device(stall_ms=60000)  # a starved host must not make it stall again
    before = counters()
    send(2000)
    after = wait_until_read(env, gone(before) + 2000)
    assert after.lost_at_ring == before.lost_at_ring, (before, after)
