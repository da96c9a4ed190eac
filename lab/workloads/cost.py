# SPDX-License-Identifier: GPL-2.0-or-later
"""What the hook costs while the ring never fills, in instructions.

Measured where the VM counts them: one instruction takes one nanosecond of its
time, on its only CPU. Runs differ by less than 1 in 1000, so that a few
instructions more or fewer are seen. The value is the best burst's: the others
are interrupted by a timer.
"""

from __future__ import annotations

from lab.workloads import never_full, pktgen
from lab.workloads.devices import HERE, THERE, Reader, read_counters, run_tool, sink
from lab.workloads.env import GuestEnv
from lab.workloads.row import Row, Sample

BURSTS = 5
UNIT = "packets per million instructions"

# A socket's packet has some 5000 instructions behind it when it gets to the
# hook, pktgen's 1500: what share the hook's are is the path's, not the hook's.
ROWS = [
    Row(name="cost_socket", title="UDP socket", unit=UNIT, floor=0.98),
    Row(name="cost_qdisc", title="pktgen through the qdisc", unit=UNIT),
    Row(name="cost_direct", title="pktgen, direct", unit=UNIT),
]
MODES = {"cost_qdisc": "queue_xmit", "cost_direct": "start_xmit"}


def _socket_burst_ns(reader: Reader, env: GuestEnv, already: int) -> int:
    reader.pause()
    command = [env.helper("udp_burst"), THERE.address, str(never_full.BURST)]
    spent = int(run_tool(command))
    reader.resume()
    never_full.wait_read(already + never_full.BURST)
    return spent


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    spent = []
    sent = 0
    with sink(env.helper("reader"), variant, ring=never_full.RING) as reader:
        if row.name in MODES:
            mode = MODES[row.name]
            with pktgen.senders(1, mode, never_full.BURST) as (name,):
                for _ in range(BURSTS):
                    burst = never_full.send_burst(reader, name, sent)
                    spent.append(burst.busy_seconds * 1e9 / burst.packets)
                    sent += burst.attempts
        else:
            for _ in range(BURSTS):
                spent.append(_socket_burst_ns(reader, env, sent) / never_full.BURST)
                sent += never_full.BURST
        after = read_counters(HERE)
        read = reader.end()[0]["read"]
    return Sample(
        value=1e6 / min(spent),
        sent=sent,
        read=read,
        qdisc_drops=after.qdisc_drops,
        lost_at_ring=after.lost_at_ring,
        held=after.held,
        extra={"instructions": [round(ns) for ns in spent]},
    )
