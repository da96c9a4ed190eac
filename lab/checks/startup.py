# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a call of the command takes, beside `ip -s link`, on this machine.

The devices are taps of a network namespace of its own. Where the module's answer is
part of it, it is made up before: the host need not have the module.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import re
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.failure import FINE, Unsuitable
from lab.guest.job import write_json
from lab.machines.vm import REPOSITORY
from lab.report.results import read_git
from lab.setup import install, require_root
from sluice import namespaces, netlink, rtnl, spec
from sluice.netlink import Device, Queue

ROUNDS = 15
PYTHON = "/usr/bin/python3"  # the distribution's, as installed commands use
# The command with the module's answers out of a file.
STAND_IN = """
import pickle, sys
from sluice import wire
with open(sys.argv.pop(1), "rb") as file:
    ANSWERS = pickle.load(file)
class Module:
    def __init__(self, family):
        pass
    def call(self, command, flags, attrs):
        return ANSWERS[command]
    def close(self):
        pass
wire.GenericSocket = Module
from sluice.__main__ import main
sys.exit(main())
"""
CALLS = {"-V": ["-V"], "TAB": [], "status": ["status"], "status --json": ["--json"]}
TAB = {"_SLUICE_COMPLETE": "bash_complete", "COMP_WORDS": "sluice st", "COMP_CWORD": "1"}


def make_answers(path: Path) -> None:
    """What the module would say of the devices of this namespace."""
    devices, queues = [], []
    for link in rtnl.read_links():
        device = Device(link.ifindex, link.name, True, "", 1, 250, 50, 0, 2000, 0)
        values = {**asdict(device), "state": 0, "by_rule": 0, "by_hand": 0}
        devices.append(netlink.encode(values.items(), spec.DEVICE))
        counts = (1000, 312, 976, 488, 1204, 1203, 1, 0, 12300000, 0, 5000, 0, 7000)
        queue = Queue(link.ifindex, 0, "", *counts)
        values = {**asdict(queue), "state": 0}
        queues.append(netlink.encode(values.items(), spec.QUEUE))
    answers = {spec.DEVICE_GET: devices, spec.QUEUE_GET: queues}
    path.write_bytes(pickle.dumps(answers))


@contextlib.contextmanager
def taps(count: int) -> Iterator[None]:
    """So many taps, in a namespace that vanishes with them."""
    there = namespaces.new_netns()
    try:
        with namespaces.inside(there):
            lines = [f"tuntap add dev tap{n} mode tap" for n in range(count)]
            lines += [f"link set dev tap{n} up" for n in range(count)]
            batch = "\n".join(lines)
            subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)
            yield
    finally:
        os.close(there)


@contextlib.contextmanager
def priority() -> Iterator[None]:
    """Before all other processes of the machine, also for what is started."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def run_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Milliseconds until it has ended, and of them those of the CPU."""
    cpu, started = _cpu(), time.perf_counter()
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL
    )
    if done.returncode not in (0, 1):
        raise Unsuitable(f"{' '.join(command)}: status {done.returncode}")
    return 1e3 * (time.perf_counter() - started), 1e3 * (_cpu() - cpu)


def commands(work: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """By name: a command and its environment."""
    usual = {**os.environ, "PYTHONPYCACHEPREFIX": str(work / "cache")}
    usual.pop("PYTHONDONTWRITEBYTECODE", None)
    found = {"ip -s link": (["ip", "-s", "link"], usual)}
    for name, words in CALLS.items():
        environment = {**usual, **TAB} if name == "TAB" else usual
        command = [PYTHON, "bin/sluice", *words]
        found[f"sluice {name}, no module"] = (command, environment)
    for name in ("status", "status --json"):
        command = [PYTHON, "-c", STAND_IN, str(work / "answers"), *CALLS[name]]
        found[f"sluice {name}, module's answer made up"] = (command, usual)
    return found


def measure_all(count: int) -> dict[str, Any]:
    """Each command by turns, after one call that compiles it."""
    told: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="sluice-lab-") as name, taps(count):
        work = Path(name)
        make_answers(work / "answers")
        with priority():
            for turn in range(ROUNDS + 1):
                for what, (command, environment) in commands(work).items():
                    taken = measure(command, environment)
                    if turn:
                        told.setdefault(what, []).append(taken)
    return {
        what: {
            "median_ms": round(statistics.median(one[0] for one in taken), 1),
            "least_ms": round(min(one[0] for one in taken), 1),
            "most_ms": round(max(one[0] for one in taken), 1),
            "median_cpu_ms": round(statistics.median(one[1] for one in taken), 1),
        }
        for what, taken in told.items()
    }


def startup(path: Path | None) -> int:
    require_root()
    if subprocess.run([PYTHON, "-c", "import click"], capture_output=True).returncode:
        install(["python3-click"])
    model = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.M)
    result: dict[str, Any] = {
        "provenance": {
            "date": time.strftime("%Y-%m-%d"),
            "host_kernel": platform.release(),
            "host_cpu": model[1] if model else "unknown",
            "host_cpus": os.cpu_count(),
            "python": run_of(PYTHON, "-V"),
            "click": run_of("dpkg-query", "-Wf", "${Version}", "python3-click"),
            "command_commit": read_git("rev-parse", "--short", "HEAD"),
            "command_dirty": bool(read_git("status", "--porcelain", "sluice")),
            "command_line": ["python3", "-B", "-m", "lab", "startup"],
            "load_average_before": round(os.getloadavg()[0], 1),
            "scheduling": "SCHED_FIFO 1, as others use the machine",
            "rounds": ROUNDS,
        },
        "devices": {str(count): measure_all(count) for count in (10, 1000)},
    }
    for count, table in result["devices"].items():
        print(f"{count} devices")
        for what, row in table.items():
            cpu = row["median_cpu_ms"]
            print(f"  {what:45} {row['median_ms']:6.1f} ms, CPU {cpu:.1f}")
    if path:
        write_json(path, result)
    return FINE
