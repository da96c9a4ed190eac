# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest a workload runs in: its helpers, and the variant under test."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.failure import Skipped
from lab.guest.devices import run_tool
from lab.guest.tun import read_has_backpressure
from lab.variants import parse_variant

DRIVERS = ("tun", "vhost_net", "kernel_reader")  # as they are loaded; the last if native


def is_loaded(module: str) -> bool:
    return os.path.exists(f"/sys/module/{module}")


class GuestEnv:
    """Its module and C helpers are where lab.machines.build.stage() has put them."""

    folder = Path("/out")
    module = folder / "sluice.ko"
    loaded = ""  # the patched drivers that this one has loaded, see Variant.drivers

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

        Patched ones are beside the module, in a folder of their variant's name.
        """
        wanted = parse_variant(name).drivers
        # They are built outside of the kernel's tree.
        taint = Path("/sys/module/tun/taint")
        patched = taint.exists() and "O" in taint.read_text()
        same = patched == bool(wanted) and self.loaded == wanted
        if is_loaded("tun") and same:
            return
        folder = self.folder / wanted
        if wanted and not folder.exists():
            raise Skipped(f"the drivers {wanted} were not built; use bench --series")
        for module in reversed(DRIVERS):
            if is_loaded(module):
                run_tool(["rmmod", module])
        self.loaded = wanted
        if not wanted:
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
        self.use_drivers(name)
        if variant.sets_flag and not read_has_backpressure():
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
