# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest a workload runs in: its helpers, and the variant under test."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional, Sequence

from lab.guest.devices import run_tool
from lab.guest.tun import read_has_backpressure
from lab.row import VARIANTS, Skipped, WorkloadError, parse_variant


@dataclass(frozen=True)
class GuestEnv:
    helpers: Path  # the folder of the built C helpers
    module: Optional[Path] = None  # sluice.ko

    def helper(self, name: str) -> str:
        path = self.helpers / name
        if not os.access(path, os.X_OK):
            raise WorkloadError(f"{path}: not there; build it with lab build")
        return str(path)

    @contextlib.contextmanager
    def variant(
        self, name: str, parameters: Sequence[str] = (), always_loads: bool = False
    ) -> Iterator[None]:
        """Loads what the variant needs before any device exists.

        always_loads: stock and upstream have sluice loaded, too, and unloaded at
        once. What runs an emulator pays for a load: its translations of the kernel's
        pages are void, and that is no part of the comparison.
        """
        variant = parse_variant(name)
        base = variant.base
        if base not in VARIANTS:
            raise WorkloadError(f"variant {name}: use one of {VARIANTS}")
        run_tool(["modprobe", "tun"])
        if base == "upstream" and not read_has_backpressure():
            raise Skipped("this kernel has no IFF_BACKPRESSURE")
        if base != "sluice":
            if always_loads:
                with self.loaded():
                    pass
            yield
            return
        if variant.target_us is not None:
            parameters = [*parameters, f"target_us={variant.target_us}"]
        parameters = [*parameters, *variant.parameters]
        with self.loaded(parameters, variant.module):
            yield

    @contextlib.contextmanager
    def loaded(
        self, parameters: Sequence[str] = (), name: str = ""
    ) -> Iterator[None]:
        """name: of another build of it, in the same folder."""
        if self.module is None:
            raise Skipped("sluice.ko was not built")
        module = self.module.with_name(name) if name else self.module
        run_tool(["insmod", str(module), *parameters])
        try:
            yield
        finally:
            run_tool(["rmmod", "sluice"])
