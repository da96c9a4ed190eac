# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads: one file for each question, its C helper beside it.

A workload module has ROWS and run(row, variant, seconds, env) -> Sample. The
caller uses all_rows() or application_rows(), and measure(): measure() enters
env.variant(variant), so that sluice.ko is loaded before the first device exists
and unloaded after the last is gone, and raises Skipped or WorkloadError.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Dict, List

from lab.workloads.row import VARIANTS, Row, Sample, Skipped, WorkloadError

if TYPE_CHECKING:
    from lab.workloads.env import GuestEnv

__all__ = [
    "VARIANTS",
    "Row",
    "Sample",
    "Skipped",
    "WorkloadError",
    "all_rows",
    "application_rows",
    "measure",
]

# In the order of the report.
MODULES = ("pktgen", "tcp", "udp_flood", "dead_reader", "never_full", "fill")

# Needs packages of its own in the root, and another report.
APPLICATIONS = "applications"


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"lab.workloads.{name}")


def _modules() -> List[ModuleType]:
    return [_module(name) for name in MODULES]


def all_rows() -> List[Row]:
    """The rows of the bench."""
    return [row for module in _modules() for row in module.ROWS]


def application_rows() -> List[Row]:
    return list(_module(APPLICATIONS).ROWS)


def _module_of_row() -> Dict[str, ModuleType]:
    modules = [*_modules(), _module(APPLICATIONS)]
    return {row.name: module for module in modules for row in module.ROWS}


def measure(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    """One sample; a workload that sent or read nothing is an error, not a 0."""
    module = _module_of_row()[row.name]
    with env.variant(variant, row.parameters):
        sample = module.run(row, variant, seconds, env)
    if sample.sent <= 0:
        raise WorkloadError(f"{row.name}, {variant}: sent nothing")
    if sample.read <= 0 or sample.value <= 0:
        raise WorkloadError(f"{row.name}, {variant}: nothing arrived")
    return sample
