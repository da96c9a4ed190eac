# SPDX-License-Identifier: GPL-2.0-or-later
"""The tun and tap devices of the current network namespace and their qdiscs, as
rtnetlink(7) shows them, and the few changes that the command makes to them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sluice import wire
from sluice.wire import attribute, attributes, number, text

NEWLINK, GETLINK, NEWADDR = 16, 18, 20
NEWQDISC, GETQDISC = 36, 38
ROOT = 0xFFFFFFFF
IFF_UP = 0x1
ARPHRD_NONE = 65534
TUN, TAP = 1, 2  # IFLA_TUN_TYPE
IFNAME, QDISC, TXQLEN, LINKINFO, STATS64 = 3, 6, 13, 18, 23
INFO_KIND, INFO_DATA = 1, 2
TUN_TYPE, TUN_NUM_QUEUES = 3, 8
TX_PACKETS, TX_DROPPED = 1, 7  # places in rtnl_link_stats64
LOCAL, ADDRESS = 2, 1
TCA_KIND, TCA_STATS2 = 1, 7
STATS_QUEUE, STATS_APP = 3, 4
# Where a qdisc's own statistics have the number of packets marked with ECN.
MARKS = {"fq_codel": 12, "codel": 24, "fq_pie": 16, "red": 12}

_LINK = struct.Struct("=BxHiII")  # family, type, index, flags, change
_QDISC = struct.Struct("=BxxxiIII")  # family, index, handle, parent, info
_ADDRESS = struct.Struct("=BBBBi")  # family, prefix, flags, scope, index
_QUEUE = struct.Struct("=5I")  # qlen, backlog, drops, requeues, overlimits


@dataclass(frozen=True)
class Link:
    """A tun or tap device as the system shows it without the module."""

    ifindex: int
    name: str
    kind: str  # tun or tap
    up: bool
    qdisc: str
    ring: int  # txqueuelen
    queues: int
    tx_dropped: int
    tx_packets: int
    upstream: bool | None  # IFF_BACKPRESSURE; None: unknown


@dataclass(frozen=True)
class QdiscStats:
    """The backlog of a device's qdiscs, and their counters since they were attached."""

    backlog: int = 0  # packets
    backlog_bytes: int = 0
    drops: int = 0
    overlimits: int = 0
    requeues: int = 0
    marks: int | None = None  # ECN; None: this kind of qdisc does not count them


def _counter(stats: bytes, place: int) -> int:
    return number(stats[8 * place : 8 * place + 8])


def parse_link(body: bytes) -> Link | None:
    """A device of kind tun in the kernel's answer; None for another kind."""
    _, kind, index, flags, _ = _LINK.unpack_from(body)
    attrs = dict(attributes(body[_LINK.size :]))
    info = dict(attributes(attrs.get(LINKINFO, b"")))
    if text(info.get(INFO_KIND, b"")) != "tun":
        return None
    tun = dict(attributes(info.get(INFO_DATA, b"")))
    default = TUN if kind == ARPHRD_NONE else TAP  # kernels before IFLA_TUN_TYPE
    shown = number(tun[TUN_TYPE]) if TUN_TYPE in tun else default
    stats = attrs.get(STATS64, b"")
    return Link(
        ifindex=index,
        name=text(attrs[IFNAME]),
        kind="tun" if shown == TUN else "tap",
        up=bool(flags & IFF_UP),
        qdisc=text(attrs.get(QDISC, b"")),
        ring=number(attrs.get(TXQLEN, b"")),
        queues=number(tun[TUN_NUM_QUEUES]) if TUN_NUM_QUEUES in tun else 1,
        tx_dropped=_counter(stats, TX_DROPPED),
        tx_packets=_counter(stats, TX_PACKETS),
        upstream=None,
    )


def _request(kind: int, flags: int, body: bytes) -> list[bytes]:
    with wire.Socket(wire.ROUTE) as route:
        return route.request(kind, flags, body)


def read_links() -> list[Link]:
    """The tun and tap devices."""
    only = attribute(LINKINFO, attribute(INFO_KIND, b"tun\0"))
    answer = _request(GETLINK, wire.DUMP, _LINK.pack(0, 0, 0, 0, 0) + only)
    links = (parse_link(one) for one in answer)
    return [link for link in links if link is not None]


def _parse_marks(kind: str, app: bytes) -> int | None:
    place = MARKS.get(kind)
    if place is None or len(app) < place + 4:
        return None
    return number(app[place : place + 4])


def parse_qdiscs(answer: Iterable[bytes]) -> dict[int, QdiscStats]:
    """By device: the counters of the root, which has the sums, and the marks of all."""
    found: dict[int, QdiscStats] = {}
    marks: dict[int, int] = {}
    for body in answer:
        _, index, _, parent, _ = _QDISC.unpack_from(body)
        attrs = dict(attributes(body[_QDISC.size :]))
        stats = dict(attributes(attrs.get(TCA_STATS2, b"")))
        kind = text(attrs.get(TCA_KIND, b""))
        marked = _parse_marks(kind, stats.get(STATS_APP, b""))
        if marked is not None:
            marks[index] = marks.get(index, 0) + marked
        if parent == ROOT and len(stats.get(STATS_QUEUE, b"")) >= _QUEUE.size:
            queue = _QUEUE.unpack_from(stats[STATS_QUEUE])
            qlen, backlog, drops, requeues, overlimits = queue
            found[index] = QdiscStats(qlen, backlog, drops, overlimits, requeues)
    return {
        index: replace(one, marks=marks.get(index)) for index, one in found.items()
    }


def read_qdiscs() -> dict[int, QdiscStats]:
    """The qdiscs, by the index of the device."""
    return parse_qdiscs(_request(GETQDISC, wire.DUMP, _QDISC.pack(0, 0, 0, 0, 0)))


def replace_qdisc(ifindex: int, kind: str, handle: int, parent: int) -> None:
    body = _QDISC.pack(0, ifindex, handle, parent, 0)
    body += attribute(TCA_KIND, kind.encode() + b"\0")
    _request(NEWQDISC, wire.CREATE | wire.REPLACE, body)


def set_up(ifindex: int) -> None:
    _request(NEWLINK, 0, _LINK.pack(0, 0, ifindex, IFF_UP, IFF_UP))


def set_ring(ifindex: int, packets: int) -> None:
    length = attribute(TXQLEN, struct.pack("=I", packets))
    _request(NEWLINK, 0, _LINK.pack(0, 0, ifindex, 0, 0) + length)


def add_address(ifindex: int, address: bytes, prefix: int) -> None:
    """An IPv4 address."""
    body = _ADDRESS.pack(2, prefix, 0, 0, ifindex)
    body += attribute(LOCAL, address) + attribute(ADDRESS, address)
    _request(NEWADDR, wire.CREATE, body)
