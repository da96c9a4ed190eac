# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the package cost where many taps appear at once, as with virtual machines?

The package is the module with two rules, and its rule of udev. A tap has appeared when
udevd has handled its event, or, without udevd in the root, when it is made:

    python3 -B -m lab bench --native --rows many_taps --packages udev
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Callable, Iterator

from lab.guest.crowd import crowd
from lab.guest.devices import run_tool, running, wait_until
from lab.guest.env import GuestEnv
from lab.guest.program import READY_SECONDS, succeeds
from lab.row import Row, Sample, Workload, WorkloadError, parse_variant

TREE = Path(__file__).resolve().parents[2]
TAPS = 500
CONFIG = Path("/etc/sluice.conf")
RULES = "many1* off\nmany2* on stall-ms=900\n"
UDEVD = "/usr/lib/systemd/systemd-udevd"
UDEV_RULES = Path("/run/udev/rules.d")


@contextlib.contextmanager
def _package() -> Iterator[None]:
    """What is installed beside the module, which is loaded."""
    UDEV_RULES.mkdir(parents=True, exist_ok=True)
    rule = Path(shutil.copy(TREE / "packaging/60-sluice.rules", UDEV_RULES))
    try:
        CONFIG.write_text(RULES)
        run_tool([sys.executable, "-B", str(TREE / "bin/sluice"), "apply"])
        yield
    finally:
        CONFIG.unlink()
        rule.unlink()


@contextlib.contextmanager
def _udevd() -> Iterator[Callable[[], object]]:
    """If the root has it; a function that waits until it has handled every event."""
    if not os.path.exists(UDEVD):
        yield lambda: None
        return
    with running([UDEVD]):
        ping = ["udevadm", "control", "--ping"]
        wait_until(lambda: succeeds(ping), "udevd answers", READY_SECONDS)
        yield lambda: run_tool(["udevadm", "settle", "--timeout=300"])


def _require_known() -> None:
    """The module knows each tap, and its rules those that are off."""
    from sluice.netlink import Client  # the guest has what it needs

    with Client() as client:
        known = [d for d in client.devices() if d.ifname.startswith("many")]
    off = sum(not device.on for device in known)
    if len(known) != TAPS or not 0 < off < TAPS:
        raise WorkloadError(f"sluice knows {len(known)} of {TAPS} taps, {off} are off")


def run(variant: str, seconds: float, env: GuestEnv) -> Sample:
    """It lasts as long as it takes, whatever the seconds."""
    loaded = parse_variant(variant).base == "sluice"
    with _package() if loaded else contextlib.nullcontext(), _udevd() as settle:
        with crowd(TAPS, name="many") as made:
            began = time.monotonic()
            settle()
            took = made + time.monotonic() - began
            if loaded:
                _require_known()
        settle()
    return Sample(
        *(TAPS / took, TAPS, TAPS),
        qdisc_drops=0,
        lost_at_ring=0,
        extra={"seconds_until_made": made},
    )


WORKLOADS = [Workload(Row("many_taps", f"{TAPS} taps appear", "taps/s"), run)]
