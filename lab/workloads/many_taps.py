# SPDX-License-Identifier: GPL-2.0-or-later
"""In the VM: what the package costs where many taps appear, as with virtual machines.

python3 -m lab.workloads.many_taps [ROUNDS] [TAPS]: without the package and with it in
turns, in one boot. With it: the module with two rules, and the rule of udev. Without
udevd in the root only the creation is timed.

    python3 -B -m lab shell --native --packages udev --exec \\
        'python3 -B -m lab.workloads.many_taps'
"""

from __future__ import annotations

import fcntl
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

from lab.guest.devices import run_tool
from lab.guest.tun import IFF_NO_PI, IFF_TAP, open_queue
from lab.row import WorkloadError
from sluice.netlink import Client

UDEVD = "/usr/lib/systemd/systemd-udevd"
UDEV_RULE = Path("/usr/lib/udev/rules.d/60-sluice.rules")
CONFIG = Path("/etc/sluice.conf")
RULES = "many1* off\nmany2* on stall-ms=900\n"
MODULE = "/out/sluice.ko"
TUNSETPERSIST = 0x400454CB
GROUP = 77  # of the taps, for their removal
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


def remove(names: List[str]) -> None:
    """All at once: one after the other they take a grace period each."""
    lines = [f"link set dev {name} group {GROUP}\n" for name in names]
    run_tool(["ip", "-batch", "-"], "".join(lines))
    run_tool(["ip", "link", "del", "group", str(GROUP)])
    settle()


def require_known(taps: int) -> None:
    """The module, if it is loaded, knows each of them."""
    if not os.path.exists("/sys/module/sluice"):
        return
    with Client() as client:
        known = [d for d in client.devices() if d.ifname.startswith("many")]
    off = sum(not device.on for device in known)
    if len(known) != taps or not 0 < off < taps:
        raise WorkloadError(f"sluice knows {len(known)} of {taps} taps, {off} are off")


def measure(taps: int) -> Seconds:
    names = [f"many{n}" for n in range(taps)]
    started = time.monotonic()
    queues = [open_queue(IFF_TAP | IFF_NO_PI, name) for name in names]
    created = time.monotonic()
    settle()
    settled = time.monotonic()
    require_known(taps)
    for queue in queues:
        fcntl.ioctl(queue, TUNSETPERSIST, 1)
        os.close(queue)
    remove(names)
    return {"created": created - started, "settled": settled - started}


def compare(found: Dict[str, List[Seconds]], what: str) -> Dict[str, Any]:
    """The medians, and quartiles of the ratios of neighbours."""
    without = [sample[what] for sample in found[WITHOUT]]
    there = [sample[what] for sample in found[WITH]]
    ratios = [b / a for a, b in zip(without, there)]  # noqa: B905
    lower, middle, upper = statistics.quantiles(ratios, n=4)
    return {
        "without_s": round(statistics.median(without), 4),
        "with_s": round(statistics.median(there), 4),
        "ratio": round(middle, 4),
        "quartiles": f"{lower:.3f} ... {upper:.3f}",
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
    answer = {what: compare(found, what) for what in ("created", "settled")}
    machine = {"kernel": os.uname().release, "cpus": os.cpu_count(), "udev": HAS_UDEV}
    print(json.dumps({**machine, "taps": taps, "rounds": rounds, **answer}))


if __name__ == "__main__":
    main()
