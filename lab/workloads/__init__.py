# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads: one file for each question, its C helper beside it.

A workload module has ROWS and run(row, variant, seconds, env) -> Sample. The
caller uses rows_of() or all_rows(), and measure(): measure() enters
env.variant(variant), so that sluice.ko is loaded before the first device exists
and unloaded after the last is gone, and raises Skipped or WorkloadError.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Dict, List

from lab.row import VARIANTS, Row, Sample, Skipped, WorkloadError

if TYPE_CHECKING:
    from lab.guest.env import GuestEnv

__all__ = [
    "VARIANTS",
    "Row",
    "Sample",
    "Skipped",
    "WorkloadError",
    "all_rows",
    "measure",
    "rows_of",
]

# By the command that measures them, in the order of its report.
MODULES = {
    "bench": ("pktgen", "tcp", "udp_flood", "shaping", "dead_reader", "never_full"),
    # needs packages of its own in the root
    "apps": ("applications", "multicast", "qemu"),
    "depth": ("depth",),
    "native_depth": ("in_kernel_depth", "depth"),  # has more variants
    # needs the lab's own module; those of make bench that need no more are with it
    "native": ("in_kernel", "pktgen", "tcp", "udp_flood", "dead_reader", "never_full"),
    "cost": ("cost",),  # needs a VM that counts instructions
}


def _modules(command: str) -> List[ModuleType]:
    return [
        importlib.import_module(f"lab.workloads.{name}") for name in MODULES[command]
    ]


def rows_of(command: str) -> List[Row]:
    """The rows of one of MODULES."""
    return [row for module in _modules(command) for row in module.ROWS]


def all_rows() -> List[Row]:
    rows = {row.name: row for command in MODULES for row in rows_of(command)}
    return list(rows.values())


def _module_of_row() -> Dict[str, ModuleType]:
    modules = [module for command in MODULES for module in _modules(command)]
    return {row.name: module for module in modules for row in module.ROWS}


def measure(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """One sample; a workload that sent or read nothing is an error, not a 0."""
    module = _module_of_row()[row.name]
    with env.variant(variant, row.parameters, row.always_loads):
        sample = module.run(row, variant, seconds, env)
    if sample.sent <= 0:
        raise WorkloadError(f"{row.name}, {variant}: sent nothing")
    if sample.read <= 0 or sample.value <= 0:
        raise WorkloadError(f"{row.name}, {variant}: nothing arrived")
    return sample
