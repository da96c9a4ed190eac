# SPDX-License-Identifier: GPL-2.0-or-later
"""What make demo shows: rows whose reader has a pace, or never reads.

The reader is a link of 1000 packets/s, which an emulator on a busy host keeps up with as
a CPU does. So the rates are the same under each variant, and what differs is what
packets wait for, and what is lost. The voice flow is a ping of a call's size and rate.
How fast the lab's own processes run does not matter.
"""

from __future__ import annotations

from functools import partial

from lab.row import workload
from lab.workloads import dead_reader, pktgen, tcp

LINK_US = 1000
LINK = ("--link-us", str(LINK_US), "--steady")
LINK_TITLE = f"a link of {1_000_000 // LINK_US} packets/s"
PACE = tcp.Pace(LINK_TITLE, LINK, tcp.SMALL_BLOCK)
PINGS = {"interval": 0.05}  # they take a part of the link
CALL = {"interval": 0.02, "size": 172}  # G.711 with RTP's header
FLOOD_MBIT = 50  # more than four times what the link takes
FLOOD = tcp.udp_options(tcp.UDP_PAYLOAD_BYTES, f"{FLOOD_MBIT}M")
SAME = 0.95  # a rate is the same from here on
LEAST_MBIT = 10.0  # of the link's 11.6: an emulator with less does not keep its pace
TCP = "demo_tcp"
SHARE = 1 / 3  # sluice's ping is at most this much of stock's
PEER_PACKETS, PEER_SECONDS = 3000, 0.001  # between packets

OF_RATES = {"floor": SAME, "pace": LEAST_MBIT, "latency_share": SHARE}
WORKLOADS = [
    tcp.workload(
        TCP,
        f"8 TCP streams over {LINK_TITLE}",
        tcp.Case(8, PACE, pings=PINGS),
        **OF_RATES,
    ),
    tcp.workload(
        "demo_udp",
        f"UDP, {FLOOD_MBIT} Mbit/s into the same link",
        tcp.Case(1, PACE, FLOOD, PINGS),
        **OF_RATES,
    ),
    tcp.workload(
        "demo_voice",
        "voice, 50 packets/s, beside a bulk transfer",
        tcp.Case(4, PACE, pings=CALL),
        floor=None,
        latency_share=SHARE,
    ),
    pktgen.workload(
        "demo_direct",
        f"2 pktgen senders into {LINK_TITLE}",
        pktgen.Case(2, options=LINK),
        unit="",  # what the ring holds at the end is read, too
        floor=None,
    ),
    workload(
        "demo_dead_reader",
        "dead reader, living peer, one socket",
        f"packets to the peer, of {PEER_PACKETS}",
        partial(dead_reader.run, packets=PEER_PACKETS, pause=PEER_SECONDS),
        floor=SAME,
        **dead_reader.DEMANDS,
    ),
]
