# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads: one file for each question, the C helpers beside them.

A file has WORKLOADS: each a Row and the function that takes one sample of it, which
raises Skipped or WorkloadError.
"""

from __future__ import annotations

from lab.failure import WorkloadError
from lab.guest.env import GuestEnv
from lab.row import Row, Sample
from lab.workloads import applications, dead_reader, demo, depth, never_full, pktgen, tcp

_SENDERS = [*pktgen.WORKLOADS, *tcp.TCP, *tcp.UDP]
_OTHERS = [*dead_reader.WORKLOADS, *never_full.WORKLOADS]
# By the command that measures them, in the order of its report.
BY_COMMAND = {
    "demo": demo.WORKLOADS,
    "bench": [*_SENDERS, *_OTHERS],
    "apps": applications.WORKLOADS,  # needs packages of its own in the root
    "depth": depth.IN_PROCESSES,
    "native_depth": [*depth.TO_KERNEL, *depth.IN_PROCESSES],
    # needs the lab's own module; those of make bench that need no more are with it
    "native": [*pktgen.TO_KERNEL, *tcp.TO_KERNEL, *tcp.AWAY, *_SENDERS, *_OTHERS],
    "cost": never_full.COST,  # needs a VM that counts instructions
}
# By the names of their rows.
WORKLOADS = {one.row.name: one for every in BY_COMMAND.values() for one in every}

# What make native measures if no row is named. Four senders in the kernel need as many
# CPUs.
USUAL_NATIVE = (
    *("kernel_[!p]*", "kernel_pktgen_[!4]*", "udp_*"),
    *("pktgen_[12q]*", "vhost_1", "tcp_[18]_fast", "tcp_8_[!f]*"),
    *("dead_reader", "never_full_*"),
)


def rows_of(command: str) -> list[Row]:
    return [one.row for one in BY_COMMAND[command]]


def measure(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """One sample: sluice.ko is loaded before the first device exists, and unloaded after
    the last is gone. A workload that sent or read nothing is an error, not a 0."""
    with env.variant(variant, row.parameters):
        sample = WORKLOADS[row.name].measure(variant, seconds, env)
    if sample.sent <= 0:
        raise WorkloadError(f"{row.name}, {variant}: sent nothing")
    if sample.read <= 0 or sample.value <= 0:
        raise WorkloadError(f"{row.name}, {variant}: nothing arrived")
    return sample
