# SPDX-License-Identifier: GPL-2.0-or-later
"""A UDP flood through the slow forwarder: how much of it arrives?

iperf3, as in the published measurements: its sender and its receiver want as
much of the CPUs as the forwarder does.
"""

from __future__ import annotations

from lab.workloads import latency
from lab.workloads.devices import FAR, NEAR, forwarder, read_counters
from lab.workloads.devices import wait_drained
from lab.workloads.env import GuestEnv
from lab.workloads.row import Row, Sample
from lab.workloads.tcp import parse_iperf3, run_client, server

BURN_US = 20
PAYLOAD_BYTES = 1400

ROWS = [
    Row(
        name="udp_flood",
        title="UDP flood, slow reader, received",
        unit="Mbit/s",
        demo=True,
        floor=1.3,
        reaches_upstream=True,
    )
]


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    with forwarder(env.helper("reader"), variant, BURN_US) as reader:
        with server(), latency.ping(NEAR, FAR) as ping:
            output = run_client(
                *(1, seconds, "--udp", "--bitrate", "0"),
                *("--length", str(PAYLOAD_BYTES)),
            )
            pinged = ping.end()
        after = wait_drained([NEAR, FAR])
        near = read_counters(NEAR)
        counts = reader.end()
    rate, _ = parse_iperf3(output)
    return Sample(
        value=rate,
        sent=after.offered,
        read=sum(count["read"] for count in counts),
        qdisc_drops=after.qdisc_drops,
        lost_at_ring=after.lost_at_ring,
        held=after.held,
        extra={
            "flood_sent": near.offered,
            "requeues": after.requeues,
            "pings_sent": pinged.sent,
            "pings_received": pinged.received,
            "write_errors": sum(count["write_errors"] for count in counts),
        },
        **pinged.fields(),
    )
