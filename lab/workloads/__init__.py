# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads: one file for each question, the C helpers beside them.

A file has WORKLOADS: each a Row and the function that takes one sample of it, which
raises Skipped or WorkloadError.
"""

from __future__ import annotations

import functools

from lab.failure import WorkloadError
from lab.guest.env import GuestEnv
from lab.row import Row, Sample, Workload


@functools.cache
def by_command() -> dict[str, list[Workload]]:
    """By the command that measures them, in the order of its report."""
    from lab.workloads import (
        applications,
        dead_reader,
        demo,
        depth,
        never_full,
        pktgen,
        tcp,
    )

    senders = [*pktgen.WORKLOADS, *tcp.TCP, *tcp.UDP]
    others = [*dead_reader.WORKLOADS, *never_full.WORKLOADS]
    return {
        "demo": demo.WORKLOADS,
        "bench": [*senders, *others],
        "apps": applications.WORKLOADS,  # needs packages of its own in the root
        "depth": depth.IN_PROCESSES,
        "native_depth": [*depth.TO_KERNEL, *depth.IN_PROCESSES],
        # needs the lab's own module; those of make bench that need no more are with it
        "native": [
            *pktgen.TO_KERNEL,
            *tcp.TO_KERNEL,
            *tcp.AWAY,
            *senders,
            *others,
        ],
        "cost": never_full.COST,  # needs a VM that counts instructions
    }


# What make native measures if no row is named. Four senders in the kernel need as many
# CPUs.
USUAL_NATIVE = (
    *("kernel_[!p]*", "kernel_pktgen_[!4]*", "udp_*"),
    *("pktgen_[12q]*", "vhost_1", "tcp_[18]_fast", "tcp_8_[!f]*"),
    *("dead_reader", "never_full_*"),
)


def rows_of(command: str) -> list[Row]:
    return [one.row for one in by_command()[command]]


def all_workloads() -> dict[str, Workload]:
    """By the names of their rows."""
    every = by_command().values()
    return {one.row.name: one for workloads in every for one in workloads}


def measure(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """One sample: sluice.ko is loaded before the first device exists, and unloaded after
    the last is gone. A workload that sent or read nothing is an error, not a 0."""
    with env.variant(variant, row.parameters):
        sample = all_workloads()[row.name].measure(variant, seconds, env)
    if sample.sent <= 0:
        raise WorkloadError(f"{row.name}, {variant}: sent nothing")
    if sample.read <= 0 or sample.value <= 0:
        raise WorkloadError(f"{row.name}, {variant}: nothing arrived")
    return sample
