# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest a workload runs in: its helpers, and the variant under test."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.failure import Skipped, WorkloadError
from lab.guest.devices import run_tool
from lab.guest.tun import read_has_backpressure
from lab.variants import SERIES, VARIANTS, parse_variant

DRIVERS = ("tun", "vhost_net", "kernel_reader")  # as they are loaded; the last if native


def is_loaded(module: str) -> bool:
    return os.path.exists(f"/sys/module/{module}")


class GuestEnv:
    """Its module and C helpers are where lab.machines.build.stage() has put them."""

    folder = Path("/out")
    module = folder / "sluice.ko"

    def helper(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def load_kernel_reader(self) -> None:
        if is_loaded("kernel_reader"):
            return
        module = self.folder / "kernel_reader.ko"
        if not module.exists():
            raise Skipped("the lab's kernel_reader.ko is only built for native machines")
        run_tool(["insmod", str(module)])

    def reader(self, options: Sequence[str]) -> str:
        """The reader's helper; if it reads in the kernel, its part there is loaded."""
        if "--in-kernel" in options:
            self.load_kernel_reader()
        return self.helper("reader")

    def use_drivers(self, name: str) -> None:
        """Loads the variant's tun driver, if another one is loaded; no device exists.

        The series' modules are beside the module, in a folder series/.
        """
        series = parse_variant(name).base == SERIES
        # The series' is built outside of the kernel's tree.
        taint = Path("/sys/module/tun/taint")
        patched = taint.exists() and "O" in taint.read_text()
        if is_loaded("tun") and patched == series:
            return
        folder = self.folder / SERIES
        if series and not folder.exists():
            raise Skipped("the drivers of series/ were not built; use bench --series")
        for module in reversed(DRIVERS):
            if is_loaded(module):
                run_tool(["rmmod", module])
        if not series:
            run_tool(["modprobe", "tun"])
            return
        run_tool(["modprobe", "-a", "tap", "vhost"])
        for module in DRIVERS:
            if (folder / f"{module}.ko").exists():
                run_tool(["insmod", str(folder / f"{module}.ko")])

    @contextlib.contextmanager
    def variant(self, name: str, parameters: Sequence[str] = ()) -> Iterator[None]:
        """Loads what the variant needs before any device exists."""
        variant = parse_variant(name)
        if variant.base not in (*VARIANTS, SERIES):
            raise WorkloadError(f"variant {name}: use one of {(*VARIANTS, SERIES)}")
        self.use_drivers(name)
        if variant.base == "upstream" and not read_has_backpressure():
            raise Skipped("this kernel has no IFF_BACKPRESSURE")
        if variant.target_us is not None:
            parameters = [*parameters, f"target_us={variant.target_us}"]
        if variant.base != "sluice":
            yield
            return
        run_tool(["insmod", str(self.module), *parameters])
        try:
            yield
        finally:
            run_tool(["rmmod", "sluice"])
