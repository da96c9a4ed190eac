# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: what the package costs where many taps appear, as with virtual machines.

python3 -m lab.workloads.many_taps [ROUNDS] [TAPS]: without the package and with it in
turns, in one boot. With it: the module with two rules, and the rule of udev. Without
udevd in the root only the creation is timed.

    python3 -B -m lab shell --exec 'python3 -B -m lab.workloads.many_taps'
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List

from lab.guest.devices import run_tool
from lab.guest.tun import IFF_NO_PI, IFF_TAP, open_queue

UDEVD = "/usr/lib/systemd/systemd-udevd"
UDEV_RULE = Path("/usr/lib/udev/rules.d/60-sluice.rules")
CONFIG = Path("/etc/sluice.conf")
RULES = "many1* off\nmany2* on stall-ms=900\n"
MODULE = "/out/sluice.ko"
HAS_UDEV = os.path.exists(UDEVD)
WITHOUT, WITH = "without", "with"

Seconds = Dict[str, float]


def install() -> None:
    """What the packages install, but for DKMS."""
    where = ["DESTDIR=/", "PREFIX=/usr", "CONF=/usr/lib"]
    run_tool(["env", *where, "/sluice/packaging/install", "module", "command"])
    CONFIG.write_text(RULES)
    if HAS_UDEV:
        run_tool([UDEVD, "--daemon"])


def switch(variant: str) -> None:
    """The package away, or there again."""
    away = UDEV_RULE.with_suffix(".away")
    if variant == WITH:
        away.rename(UDEV_RULE)
        run_tool(["insmod", MODULE])
        run_tool(["sluice", "apply"])
    else:
        UDEV_RULE.rename(away)
        if os.path.exists("/sys/module/sluice"):
            run_tool(["rmmod", "sluice"])
    if HAS_UDEV:
        run_tool(["udevadm", "control", "--reload"])
        settle()


def settle() -> None:
    if HAS_UDEV:
        subprocess.run(["udevadm", "settle", "--timeout=300"], check=True)


def measure(taps: int) -> Seconds:
    started = time.monotonic()
    queues = [open_queue(IFF_TAP | IFF_NO_PI, f"many{n}") for n in range(taps)]
    created = time.monotonic()
    settle()
    settled = time.monotonic()
    for queue in queues:
        os.close(queue)
    removed = time.monotonic()
    settle()
    return {
        "created": created - started,
        "settled": settled - started,
        "removed": removed - settled,
    }


def compare(found: Dict[str, List[Seconds]], what: str) -> Dict[str, float]:
    """The medians, and that of the ratios of neighbours with their range."""
    without = [sample[what] for sample in found[WITHOUT]]
    there = [sample[what] for sample in found[WITH]]
    ratios = sorted(b / a for a, b in zip(without, there))  # noqa: B905
    return {
        "without_s": round(statistics.median(without), 4),
        "with_s": round(statistics.median(there), 4),
        "ratio": round(statistics.median(ratios), 4),
        "lowest": round(ratios[0], 4),
        "highest": round(ratios[-1], 4),
    }


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    taps = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    install()
    found: Dict[str, List[Seconds]] = {WITHOUT: [], WITH: []}
    for number in range(rounds + 1):
        for variant, samples in found.items():
            switch(variant)
            sample = measure(taps)
            if number:  # the first fills caches
                samples.append(sample)
            print(json.dumps({"round": number, variant: sample}), flush=True)
    answer = {what: compare(found, what) for what in ("created", "settled", "removed")}
    print(json.dumps({"taps": taps, "rounds": rounds, "udev": HAS_UDEV, **answer}))


if __name__ == "__main__":
    main()
