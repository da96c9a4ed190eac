# SPDX-License-Identifier: GPL-2.0-or-later
"""The questions of depth.py, with a reader inside the kernel; see in_kernel.py."""

from __future__ import annotations

from lab.guest.env import GuestEnv
from lab.row import Row, Sample
from lab.workloads.depth import STREAMS, depth_row
from lab.workloads.in_kernel import IN_KERNEL, PACES, READERS, load_reader
from lab.workloads.tcp import Case, transfer

ROWS = [
    depth_row(f"kernel_depth_{speed}", f"TCP, {STREAMS} streams, {READERS[speed]}")
    for speed in PACES
]


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    load_reader(env)
    pace = IN_KERNEL + PACES[row.name.rpartition("_")[2]]
    return transfer(Case(STREAMS, pace), variant, seconds, env)
