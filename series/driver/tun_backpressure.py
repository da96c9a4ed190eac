#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only

"""
Backpressure of TUN/TAP devices: a full ring stops the transmit queue, so that
#if PATCH >= 3
packets wait in the qdisc; no reader can hold the senders for long.
#else
packets wait in the qdisc.
#endif
#if PATCH >= 8

With --bench [SECONDS [ROUNDS]] it tests nothing, but prints a table of what
this kernel does on this machine without a qdisc, with fq_codel, and with
fq_codel and IFF_BACKPRESSURE. Compare the tables of two kernels.
#endif
"""

#if PATCH >= 8
import contextlib
import ctypes
#endif
import fcntl
import multiprocessing
import os
#if PATCH >= 8
import select
#endif
import socket
#if PATCH >= 8
import statistics
#endif
import struct
#if PATCH >= 8
import sys
#endif
#if PATCH >= 3
import threading
#endif
import time

#if PATCH >= 8
from lib.py import ksft_run, ksft_exit, ksft_pr, KsftSkipEx, CmdExitFailure
#else
#if PATCH >= 3
from lib.py import ksft_run, ksft_exit, ksft_pr, KsftSkipEx
#else
from lib.py import ksft_run, ksft_exit
#endif
#endif
#if PATCH >= 3
from lib.py import ksft_eq, ksft_ge, ksft_gt, ksft_lt
#else
from lib.py import ksft_eq, ksft_ge, ksft_gt
#endif
#if PATCH >= 6
from lib.py import NetNS, NetNSEnter, NetdevFamily, defer, ip, tc
#else
from lib.py import NetNS, NetNSEnter, defer, ip, tc
#endif

TUNSETIFF = 0x400454ca
#if PATCH >= 8
TUNGETFEATURES = 0x800454cf
#endif
#if PATCH >= 7
TUNGETIFF = 0x800454d2
#endif
TUNSETQUEUE = 0x400454d9
IFF_TAP = 0x0002
IFF_BACKPRESSURE = 0x0080
IFF_MULTI_QUEUE = 0x0100
IFF_ATTACH_QUEUE = 0x0200
IFF_DETACH_QUEUE = 0x0400
IFF_NO_PI = 0x1000
SOL_PACKET = 263
PACKET_QDISC_BYPASS = 20
SOL_UDP = 17
UDP_SEGMENT = 103
SEGMENTS = 64       # of one datagram, at most

RING = 64
PORT = 9
DIGITS = 4          # of a packet's payload, its number
#if PATCH >= 3
STOP_MAX = 0.25     # seconds a stop may last
#endif
#if PATCH >= 3
STALL = 300         # packets that are read until a stall has no after-effect
#endif
PEER = "192.0.2.2"
PEER_MAC = "02:00:00:00:00:02"


class Tap:
    """A tap device in a namespace of its own; its reader is the test."""

    def __init__(self, qdisc="pfifo limit 1000", queues=1, ring=RING):
        self.ns = NetNS()
        defer(self.ns.__del__)
        enter = NetNSEnter(self.ns.name)
        enter.__enter__()
        defer(enter.__exit__, None, None, None)

        self.multi = IFF_MULTI_QUEUE if queues > 1 else 0
        self.files = [self.open() for _ in range(queues)]
        ip("link set dev tap0 addrgenmode none")    # it sends nothing itself
        ip(f"link set dev tap0 txqueuelen {ring} up")
        ip("addr add 192.0.2.1/24 dev tap0")
        ip(f"neigh add {PEER} lladdr {PEER_MAC} dev tap0 nud permanent")
        tc(f"qdisc replace dev tap0 root {qdisc}")
#if PATCH >= 6
        self.ifindex = socket.if_nametoindex("tap0")
        self.netdev = NetdevFamily()
#endif
        for file in self.files:
            self.read_all(file)

    def open(self):
        file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        defer(os.close, file)
        flags = IFF_TAP | IFF_NO_PI | self.multi
#if PATCH < 7
        flags |= IFF_BACKPRESSURE
#endif
        fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", b"tap0", flags))
        return file

    def set_queue(self, file, flag):
        fcntl.ioctl(file, TUNSETQUEUE, struct.pack("16sH22x", b"", flag))

#if PATCH >= 7
    def flags(self):
        got = fcntl.ioctl(self.files[0], TUNGETIFF, bytes(40))
        return struct.unpack_from("16sH", got)[1]

#endif
    def read(self, file=None):
        """The UDP payload of the next packet, b"" of others, or None."""
        try:
            frame = os.read(file or self.files[0], 2000)
        except BlockingIOError:
            return None
        if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_UDP:
            return b""
        return frame[42:]

    def read_all(self, file=None, idle=0.5):
        """All payloads, until nothing came for a while."""
        got, last = [], time.monotonic()
        while time.monotonic() - last < idle:
            payload = self.read(file)
            if payload is None:
                time.sleep(0.001)
                continue
            last = time.monotonic()
            if payload:
                got.append(payload)
        return got

    def socket(self):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        defer(sock.close)
        sock.connect((PEER, PORT))
        return sock

#if PATCH >= 6
    def qstats(self):
        return self.netdev.qstats_get({"ifindex": self.ifindex}, dump=True)[0]

#endif
    def dropped(self):
        link = ip("-s link show dev tap0", json=True)[0]
        return link["stats64"]["tx"]["dropped"]


def send(sock, count):
#if PATCH >= 3
    """So many packets at once: a stop lasts no longer than STOP_MAX."""
#else
    """So many packets at once, before the first of them is read."""
#endif
    sock.setsockopt(SOL_UDP, UDP_SEGMENT, DIGITS)
    for first in range(0, count, SEGMENTS):
        segments = range(first, min(first + SEGMENTS, count))
        sock.send(b"".join(b"%0*d" % (DIGITS, number) for number in segments))


def numbers(payloads):
    return [int(payload) for payload in payloads]


def full_ring_stops_queue() -> None:
    """More packets than the ring holds: all arrive, in their order."""
    tap = Tap()
#if PATCH >= 6
    before = tap.qstats()
#endif
    send(tap.socket(), 4 * RING)
    ksft_eq(numbers(tap.read_all()), list(range(4 * RING)))
    ksft_eq(tap.dropped(), 0)
#if PATCH >= 6
    after = tap.qstats()
    ksft_gt(after["tx-stop"], before["tx-stop"])
    ksft_eq(after["tx-stop"], after["tx-wake"])
#endif


def ring_of_one_loses_nothing() -> None:
    tap = Tap(ring=1)
    send(tap.socket(), 20)
    ksft_eq(numbers(tap.read_all()), list(range(20)))
    ksft_eq(tap.dropped(), 0)


#if PATCH >= 7
def flag_is_not_shown() -> None:
    """An application that did not set it does not see it."""
    ksft_eq(Tap().flags() & IFF_BACKPRESSURE, 0)


#endif
def noqueue_drops() -> None:
    """Where no packet can wait the ring drops, as ever."""
    tap = Tap(qdisc="noqueue")
#if PATCH >= 6
    before = tap.qstats()
#endif
    send(tap.socket(), 4 * RING)
    ksft_eq(tap.dropped(), 3 * RING)
    ksft_eq(numbers(tap.read_all()), list(range(RING)))
#if PATCH >= 6
    ksft_eq(tap.qstats()["tx-stop"], before["tx-stop"])
#endif


def _flood_directly(tap, stop, sent):
    """Around the qdisc; counts what the driver took."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sock.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
    sock.bind(("tap0", 0))
    head = bytes.fromhex(PEER_MAC.replace(":", "")) + bytes(6) + b"\x08\x00"
    frame = head + bytes(9) + bytes([socket.IPPROTO_UDP]) + bytes(18) + b"1"
    count = 0
    while not stop.is_set():
        for _ in range(RING):
            try:
                sock.send(frame)
                count += 1
            except OSError:     # refused: the queue is stopped
                pass
    sent.put(count)


def direct_senders_lose_nothing() -> None:
#if PATCH >= 3
    """Several CPUs in the driver at once; the reader has one of them.

    A reader that the machine does not run for long is a stalled one: its ring drops.
    """
#else
    """Several CPUs in the driver at once; the reader has one of them."""
#endif
    tap = Tap()
#if PATCH >= 3
    fork, got, longest = multiprocessing.get_context("fork"), 0, 0
#else
    fork, got = multiprocessing.get_context("fork"), 0
#endif
    stop, sent = fork.Event(), fork.SimpleQueue()
    senders = [fork.Process(target=_flood_directly, args=(tap, stop, sent))
               for _ in range(max(2, os.cpu_count() - 1))]
    for sender in senders:
        sender.start()
#if PATCH >= 3
    now = time.monotonic()
    end = now + 2
    while now < end:
        got += bool(tap.read())
        before, now = now, time.monotonic()
        longest = max(longest, now - before)
#else
    end = time.monotonic() + 2
    while time.monotonic() < end:
        got += bool(tap.read())
#endif
    stop.set()
    got += len(tap.read_all())
    for sender in senders:
        sender.join()
#if PATCH >= 3
    if longest > STOP_MAX / 2:
        raise KsftSkipEx(f"the reader did not run for {longest:.3f} s")
#endif
    ksft_gt(got, 0)
    ksft_eq(got, sum(sent.get() for _ in senders))
    ksft_eq(tap.dropped(), 0)


#if PATCH >= 3
def _longest_send(sock, seconds):
    longest, count, end = 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.monotonic()
        sock.send(b"1")
        longest = max(longest, time.monotonic() - started)
        count += 1
    ksft_pr(f"{count} packets in {seconds} s, longest send {longest:.3f} s")
    return longest


def dead_reader_holds_nobody() -> None:
    """There is one stop, and it is bounded: what follows is dropped."""
    tap = Tap()
    ksft_lt(_longest_send(tap.socket(), 3), 4 * STOP_MAX)
    ksft_gt(tap.dropped(), 0)
#if PATCH >= 6
    ksft_lt(tap.qstats()["tx-stop"], 3)
#endif


def slow_reader_holds_nobody() -> None:
    """Nor does one that reads a packet now and then."""
    tap = Tap()
    stop = threading.Event()

    def read_slowly():
        while not stop.wait(0.1):
            tap.read()

    reader = threading.Thread(target=read_slowly)
    reader.start()
    longest = _longest_send(tap.socket(), 2)
    stop.set()
    reader.join()
    ksft_lt(longest, 4 * STOP_MAX)
    ksft_gt(tap.dropped(), 0)


def reader_that_comes_back_loses_nothing() -> None:
    """It is waited for as ever when it has read as many packets as pay for a stall."""
    tap = Tap()
    _longest_send(tap.socket(), 1)
    read = len(tap.read_all())
    while read < STALL + RING:
        send(tap.socket(), RING // 2)
        read += len(tap.read_all(idle=0.05))
    dropped = tap.dropped()
    send(tap.socket(), 4 * RING)
    ksft_eq(numbers(tap.read_all()), list(range(4 * RING)))
    ksft_eq(tap.dropped(), dropped)


#endif
def stop_queue(tap):
    """Send as many packets as the ring holds; it stops before they are all in it."""
#if PATCH >= 6
    before = tap.qstats()
#endif
    send(tap.socket(), RING)
#if PATCH >= 6
    ksft_gt(tap.qstats()["tx-stop"], before["tx-stop"])
#endif


def resize_wakes_queue() -> None:
    """The ring keeps its packets; older kernels drop those that wait in the qdisc."""
    tap = Tap()
    stop_queue(tap)
    ip("link set dev tap0 txqueuelen 500")
    got = numbers(tap.read_all())
    ksft_gt(len(got), 0)
    ksft_eq(got, list(range(len(got))))
    send(tap.socket(), 4 * RING)
    ksft_eq(numbers(tap.read_all()), list(range(4 * RING)))
    ksft_eq(tap.dropped(), 0)


def detached_queue_is_woken() -> None:
    """A queue that is detached while it is stopped, and attached again."""
    tap = Tap(qdisc="mq", queues=2)
    socks = [tap.socket() for _ in range(16)]
    for sock in socks:
        send(sock, RING)
    tap.set_queue(tap.files[0], IFF_DETACH_QUEUE)
    ksft_ge(len(tap.read_all(tap.files[1])), 1)
    tap.set_queue(tap.files[0], IFF_ATTACH_QUEUE)
    for sock in socks:
        send(sock, 1)
    got = sum(len(tap.read_all(file)) for file in tap.files)
    ksft_eq(got, len(socks))


#if PATCH >= 3
def change_to_noqueue_wakes_queue() -> None:
    tap = Tap()
    stop_queue(tap)
    tc("qdisc replace dev tap0 root noqueue")
    tap.read_all()
    send(tap.socket(), 10)
    ksft_eq(numbers(tap.read_all()), list(range(10)))


#endif
def down_and_up_wakes_queue() -> None:
    tap = Tap()
    stop_queue(tap)
    ip("link set dev tap0 down")
    tap.read_all()
    ip("link set dev tap0 up")
    ip(f"neigh replace {PEER} lladdr {PEER_MAC} dev tap0 nud permanent")
    send(tap.socket(), 4 * RING)
    ksft_eq(numbers(tap.read_all()), list(range(4 * RING)))
    ksft_eq(tap.dropped(), 0)


#if PATCH >= 8
FORK = multiprocessing.get_context("fork")
NEAR, FAR = "192.0.2.1", PEER
ECHO_PORT, TCP_PORT = 7, 5001
MANY = 512          # packets per second and more are counted in blocks of these


class Path:
    """
    Two namespaces with a tap each, and a process per direction that forwards
    frames. That of the near tap works for @work seconds on each frame, and takes
    one per @pace seconds at most.
    """

    def __init__(self, stack, qdisc, flags, work=0, pace=0):
        self.stack = stack
        self.spaces = [stack.enter_context(NetNS()) for _ in range(2)]
        self.files = [self.open(space, flags) for space in self.spaces]
        for space, address in zip(self.spaces, (NEAR, FAR)):
            ip("link set dev tap0 addrgenmode none", ns=space)
            ip("link set dev lo up", ns=space)
            ip("link set dev tap0 txqueuelen 500 up", ns=space)
            ip(f"addr add {address}/24 dev tap0", ns=space)
            tc(f"qdisc replace dev tap0 root {qdisc}", ns=space)
        self.forwarded = FORK.RawValue(ctypes.c_ulonglong)
        near, far = self.files
        self.run(self.forward, near, far, work, pace, self.forwarded)
        self.run(self.forward, far, near, 0, 0, FORK.RawValue(ctypes.c_ulonglong))

    def open(self, space, flags, name=b"tap0"):
        with NetNSEnter(space.name):
            file = os.open("/dev/net/tun", os.O_RDWR)
        self.stack.callback(os.close, file)
        flags |= IFF_TAP | IFF_NO_PI
        fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name, flags))
        return file

    def socket(self, space, *kind):
        with NetNSEnter(self.spaces[space].name):
            return self.stack.enter_context(socket.socket(*kind))

    def run(self, function, *args):
        process = FORK.Process(target=function, args=args, daemon=True)
        process.start()
        self.stack.callback(process.join)
        self.stack.callback(process.kill)

    @staticmethod
    def forward(source, target, work, pace, count):
        at = time.monotonic()
        while True:
            frame = os.read(source, 2000)
            now = time.monotonic()
            if pace:
                at = max(at, now - 0.01) + pace
                time.sleep(max(0, at - now))
            while time.monotonic() < now + work:
                pass
            os.write(target, frame)
            count.value += 1

    def lost(self):
        link = ip("-s link show dev tap0", json=True, ns=self.spaces[0])[0]
        return link["stats64"]["tx"]["dropped"]


def _send_without_end(sock, data, count):
    while True:
        try:
            sock.send(data)
            count.value += 1
        except OSError:         # refused: the queue is stopped
            pass


def _receive_streams(server, streams, count):
    socks = [server.accept()[0] for _ in range(streams)]
    while True:
        for sock in select.select(socks, [], [])[0]:
            count.value += len(sock.recv(1 << 18))


def tcp_streams(path, streams):
    """Mbit/s that arrive."""
    count = FORK.RawValue(ctypes.c_ulonglong)
    server = path.socket(1, socket.AF_INET, socket.SOCK_STREAM)
    server.bind((FAR, TCP_PORT))
    server.listen(streams)
    path.run(_receive_streams, server, streams, count)
    for _ in range(streams):
        sock = path.socket(0, socket.AF_INET, socket.SOCK_STREAM)
        sock.connect((FAR, TCP_PORT))
        sent = FORK.RawValue(ctypes.c_ulonglong)
        path.run(_send_without_end, sock, bytes(1 << 16), sent)
    return lambda: count.value * 8e-6


def udp_flood(path):
    """Packets/s that the near tap's reader reads."""
    sink = path.socket(1, socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind((FAR, PORT))
    sock = path.socket(0, socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((FAR, PORT))
    sent = FORK.RawValue(ctypes.c_ulonglong)
    path.run(_send_without_end, sock, bytes(1400), sent)
    return lambda: path.forwarded.value


def direct_senders(path, senders):
    """The same, of packets that go around the qdisc."""
    sent = FORK.RawValue(ctypes.c_ulonglong)
    frame = b"\x02" + bytes(11) + b"\x88\xb5" + bytes(46)
    for _ in range(senders):
        sock = path.socket(0, socket.AF_PACKET, socket.SOCK_RAW)
        sock.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        sock.bind(("tap0", 0))
        path.run(_send_without_end, sock, frame, sent)
    return lambda: path.forwarded.value


def _send_in_turn(sock, count):
    while True:
        sock.sendto(b"1", ("198.51.100.2", PORT))
        sock.sendto(b"1", (NEAR, PORT))
        count.value += 1


def dead_reader(path, qdisc, flags):
    """Packets/s to a peer beside one behind a tap that nobody reads."""
    space = path.spaces[0]
    path.open(space, flags, b"dead0")
    ip("link set dev dead0 up", ns=space)
    ip("addr add 198.51.100.1/24 dev dead0", ns=space)
    ip(f"neigh add 198.51.100.2 lladdr {PEER_MAC} dev dead0 nud permanent", ns=space)
    tc(f"qdisc replace dev dead0 root {qdisc}", ns=space)
    count = FORK.RawValue(ctypes.c_ulonglong)
    path.run(_send_in_turn, path.socket(0, socket.AF_INET, socket.SOCK_DGRAM), count)
    return lambda: count.value


def _echo(sock):
    while True:
        data, peer = sock.recvfrom(100)
        sock.sendto(data, peer)


def ping(path, seconds):
    """The median time until an answer comes, ms; infinite if most do not come."""
    sock = path.socket(1, socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((FAR, ECHO_PORT))
    path.run(_echo, sock)
    sock = path.socket(0, socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((FAR, ECHO_PORT))
    sock.settimeout(0.5)
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        started, number = time.monotonic(), b"%d" % len(times)
        try:
            sock.send(number)
            while sock.recv(100) != number:
                pass
            times.append(1e3 * (time.monotonic() - started))
        except OSError:         # lost, or refused
            times.append(float("inf"))
        time.sleep(0.01)
    return statistics.median(times)


# Name, unit, what sends, the seconds of work and of pace: see class Path.
BENCH = (
    ("tcp_1_fast", "Mbit/s", lambda path, *_: tcp_streams(path, 1), 0, 0),
    ("tcp_8_fast", "Mbit/s", lambda path, *_: tcp_streams(path, 8), 0, 0),
    ("tcp_8_slow", "Mbit/s", lambda path, *_: tcp_streams(path, 8), 50e-6, 0),
    ("tcp_8_link", "Mbit/s", lambda path, *_: tcp_streams(path, 8), 0, 240e-6),
    ("udp_flood", "packets/s", lambda path, *_: udp_flood(path), 20e-6, 0),
    ("direct_1", "packets/s", lambda path, *_: direct_senders(path, 1), 0, 0),
    ("direct_2", "packets/s", lambda path, *_: direct_senders(path, 2), 0, 0),
    ("dead_reader", "packets/s", dead_reader, 0, 0),
)


def take_sample(qdisc, flags, seconds, load, work, pace):
    """Units per second, packets lost per second, and the median ping in ms."""
    with contextlib.ExitStack() as stack:
        path = Path(stack, qdisc, flags, work, pace)
        read = load(path, qdisc, flags)
        time.sleep(0.5)         # until TCP has found its pace
        before, lost, started = read(), path.lost(), time.monotonic()
        milliseconds = ping(path, seconds)
        spent = time.monotonic() - started
        return ((read() - before) / spent, (path.lost() - lost) / spent, milliseconds)


def _find_qdisc():
    with NetNS() as space:
        for qdisc in ("fq_codel", "pfifo_fast"):
            with contextlib.suppress(CmdExitFailure):
                tc(f"qdisc add dev lo root {qdisc}", ns=space)
                return qdisc
    raise KsftSkipEx("no qdisc that queues")


def _variants():
    """Name -> qdisc and flags; the first is what the others are compared with."""
    qdisc = _find_qdisc()
    with open("/dev/net/tun", "rb", buffering=0) as tun:
        features = struct.unpack("I", fcntl.ioctl(tun, TUNGETFEATURES, bytes(4)))[0]
    found = {"noqueue": ("noqueue", 0), qdisc: (qdisc, 0)}
    if features & IFF_BACKPRESSURE:
        found["flag"] = (qdisc, IFF_BACKPRESSURE)
    return found


def _short(number):
    if number < 9999:
        return f"{number:.0f}"
    return f"{number / 1e3:.0f}k" if number < 9999e3 else f"{number / 1e6:.0f}M"


def _ratio(values, base):
    """Of the medians, and the extremes of the rounds."""
    ratios = [value / (other or 1) for value, other in zip(values, base)]
    middle = statistics.median(values) / (statistics.median(base) or 1)
    return f"{middle:.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def _measure(variants, rounds, *row):
    """Variant -> rates, losses and pings of the rounds; the variants take turns."""
    taken = {variant: [] for variant in variants}
    for _ in range(rounds):
        for variant, settings in variants.items():
            taken[variant].append(take_sample(*settings, *row))
    return {variant: list(zip(*samples)) for variant, samples in taken.items()}


def bench(seconds=2.0, rounds=3) -> None:
    variants = _variants()
    base, *others = variants
    print(f"Linux {os.uname().release}, {os.cpu_count()} CPUs, {rounds} rounds of "
          f"{seconds:g} s; ratios to {base};\n"
          f"lost packets/s, and median ping in ms, of {'/'.join(variants)}.\n")
    print(f"{'':<11} {base:>15}", *(f"{name:<16}" for name in others), "lost  ping")
    for name, unit, *row in BENCH:
        taken = _measure(variants, rounds, seconds, *row)
        rates, lost, pings = zip(*taken.values())
        print(f"{name:<11} {_short(statistics.median(rates[0])):>5} {unit:<9}",
              *(f"{_ratio(one, rates[0]):<16}" for one in rates[1:]),
              "/".join(_short(statistics.median(one)) for one in lost),
              "", "/".join(f"{statistics.median(one):.1f}" for one in pings),
              flush=True)


#endif
def main() -> None:
#if PATCH >= 8
    if sys.argv[1:2] == ["--bench"]:
        bench(*(convert(text) for convert, text in zip((float, int), sys.argv[2:])))
        return
#endif
    ksft_run([full_ring_stops_queue, ring_of_one_loses_nothing,
#if PATCH >= 7
              flag_is_not_shown,
#endif
#if PATCH >= 3
              dead_reader_holds_nobody, slow_reader_holds_nobody,
              reader_that_comes_back_loses_nothing, change_to_noqueue_wakes_queue,
#endif
              noqueue_drops, direct_senders_lose_nothing, resize_wakes_queue,
              detached_queue_is_woken, down_and_up_wakes_queue])
    ksft_exit()


if __name__ == "__main__":
    main()
