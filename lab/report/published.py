# SPDX-License-Identifier: GPL-2.0-or-later
"""What others published of backpressure for tun, tap and vhost-net.

Each figure is of their machine: ratios are put beside ours, absolutes never are.
The series are those for netdev: v7 (i5-6300HQ, pktgen into a VM), v12 (Ryzen
5600X, 50 runs), the same with vhost's thread pinned, the report that got the
merged one reverted from 7.2 (a fast userspace reader), a VPN author's patch of
2019 (a UDP flood), and the paper on the patch (VTC-Fall 2025: OpenVPN and
wireguard-go in a lab, TCP). At the paper's 400 Mbit/s the path of OpenVPN holds up
to 8 times the ring's 500 packets, and TCP takes long to open its window anew: hence
our rows at 50 Mbit/s with 25. What the patched ring lost it does not say.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    row: str  # ours
    where: str
    what: str
    ratio: float  # patched : stock
    lost: str  # at the ring, patched


# Row and title: Mbit/s of stock and patched, by RTT in ms.
_PAPER = {
    ("openvpn_tcp_1_{}ms_50mbit_ring25", "OpenVPN, {} ms"): {
        10: (402, 417), 20: (402, 393), 40: (97, 412), 80: (58, 263), 120: (53, 178)
    },
    ("wireguard-go_tcp_8_{}ms", "wireguard-go, {} ms"): {
        10: (787, 679), 20: (765, 719), 40: (442, 529), 80: (219, 266), 120: (145, 182)
    },
}
PUBLISHED = (
    Published("pktgen_1", "v7", "TAP, 1 thread", 185 / 196, "0"),
    Published("pktgen_4", "v7", "TAP, 4 threads", 23 / 26, "0"),
    Published("vhost_1", "v7", "vhost-net, 1 thread", 578 / 577, "0"),
    Published("vhost_4", "v7", "vhost-net, 4 threads", 66 / 64, "0"),
    Published("pktgen_1_noqueue", "v7", "TAP, 1, noqueue", 195 / 196, "1556k/s"),
    Published("pktgen_4_noqueue", "v7", "TAP, 4, noqueue", 26 / 26, "1551k/s each"),
    Published("vhost_1_noqueue", "v7", "vhost-net, 1, noqueue", 582 / 577, "1109k/s"),
    Published("vhost_4_noqueue", "v7", "vhost-net, 4, noqueue", 63 / 64, "1506k/s each"),
    Published("pktgen_1", "v12", "TAP, 1 sender", 1.123 / 1.132, "0"),
    Published("pktgen_2", "v12", "TAP, 2 senders", 1.081 / 1.115, "391/s"),
    Published("vhost_1", "v12", "vhost-net, 1 sender", 3.901 / 3.857, "0"),
    Published("vhost_2", "v12", "vhost-net, 2 senders", 3.555 / 3.664, "938/s"),
    Published("vhost_1_pinned", "v12", "vhost-net pinned, 1", 454 / 452, "0"),
    Published("vhost_4_pinned", "v12", "vhost-net pinned, 4", 79 / 71, "0"),
    Published("tcp_1_fast", "7.2", "TCP, 1 stream", 17.5 / 13.1, "0"),
    Published("tcp_2_fast", "7.2", "TCP, 2 streams", 10.9 / 13.7, "0"),
    Published("tcp_8_fast", "7.2", "TCP, 8 streams", 9.85 / 14.0, "0"),
    Published("tcp_16_fast", "7.2", "TCP, 16 streams", 9.95 / 12.4, "0"),
    Published("udp_flood", "2019", "UDP flood, 1400 bytes", 1395 / 1720, "0"),
    *(
        Published(row.format(rtt_ms), "paper", what.format(rtt_ms), patched / stock, "-")
        for (row, what), rates in _PAPER.items()
        for rtt_ms, (stock, patched) in rates.items()
    ),
)
