# SPDX-License-Identifier: GPL-2.0-or-later
"""What is made of rtnetlink's answers."""

from __future__ import annotations

import os
import struct

from sluice import rtnl, wire
from sluice.rtnl import Link, QdiscStats
from sluice.wire import attribute

STATS = struct.pack("=24Q", *(100 + n for n in range(24)))
DATA = attribute(rtnl.TUN_TYPE, b"\2") + attribute(
    rtnl.TUN_NUM_QUEUES, struct.pack("=I", 4)
)


def link_message(
    kind: bytes = b"tun", data: bytes = DATA, name: bytes = b"tap0", hardware: int = 1
) -> bytes:
    info = attribute(rtnl.INFO_KIND, kind + b"\0") + attribute(rtnl.INFO_DATA, data)
    parts = [
        (rtnl.IFNAME, name + b"\0"),
        (rtnl.TXQLEN, struct.pack("=I", 1000)),
        (rtnl.QDISC, b"pfifo_fast\0"),
        (rtnl.STATS64, STATS),
        (rtnl.LINKINFO, info),
    ]
    header = struct.pack("=BxHiII", 0, hardware, 5, 0x1003, 0)
    return header + b"".join(attribute(kind, value) for kind, value in parts)


def test_tap_of_several_queues() -> None:
    expected = Link(5, "tap0", "tap", True, "pfifo_fast", 1000, 4, 107, 101, None)
    assert rtnl.parse_link(link_message()) == expected


def test_kernel_that_does_not_tell_the_type() -> None:
    kinds = {1: "tap", 65534: "tun"}
    for hardware, kind in kinds.items():
        link = rtnl.parse_link(link_message(data=b"", hardware=hardware))
        assert link is not None and (link.kind, link.queues) == (kind, 1)


def test_other_links_are_none_of_ours() -> None:
    assert rtnl.parse_link(link_message(b"veth")) is None
    loopback = struct.pack("=BxHiII", 0, 772, 1, 1, 0) + attribute(rtnl.IFNAME, b"lo\0")
    assert rtnl.parse_link(loopback) is None


def test_name_that_is_no_text_is_kept() -> None:
    link = rtnl.parse_link(link_message(name=b"t\xff"))
    assert link is not None and os.fsencode(link.name) == b"t\xff"


def qdisc_message(parent: int, drops: int, kind: bytes, app: bytes = b"") -> bytes:
    queue = struct.pack("=5I", 3, 300, drops, 1, 2)
    stats = attribute(rtnl.STATS_QUEUE, queue) + attribute(rtnl.STATS_APP, app)
    header = struct.pack("=BxxxiIII", 0, 5, 0, parent, 0)
    return header + attribute(rtnl.TCA_KIND, kind + b"\0") + attribute(
        rtnl.TCA_STATS2, stats
    )


def test_qdisc_counts_are_the_roots_and_marks_those_of_all() -> None:
    root = qdisc_message(rtnl.ROOT, 9, b"mq")
    leaves = [
        qdisc_message(0x10000 + n, 4, b"fq_codel", struct.pack("=4I", 0, 1, 1, n))
        for n in (1, 2)
    ]
    found = rtnl.parse_qdiscs([root, *leaves])
    assert found == {5: QdiscStats(3, 300, 9, 2, 1, 3)}
    assert rtnl.parse_qdiscs([root])[5].marks is None
    assert rtnl.parse_qdiscs([leaves[0]]) == {}


def test_this_kernel_answers() -> None:
    assert rtnl.read_qdiscs() is not None
    assert all(link.kind in ("tun", "tap") for link in rtnl.read_links())


def test_kernel_may_ignore_the_filter(monkeypatch) -> None:
    """It does while the driver of tun devices is not loaded."""
    answer = [link_message(b"veth"), link_message()]
    monkeypatch.setattr(wire.Socket, "request", lambda *_: answer)
    assert [link.name for link in rtnl.read_links()] == ["tap0"]
