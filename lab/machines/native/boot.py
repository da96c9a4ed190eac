# SPDX-License-Identifier: GPL-2.0-or-later
"""How a User-Mode Linux kernel is started: what differs from QEMU's command line."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from lab.failure import Unsuitable
from lab.machines.chroot import Machine
from lab.processes import children, running

MEMORY_FOLDER = Path("/dev/shm")  # the guest's memory is a file in there
ENVIRONMENT = {"TMPDIR": str(MEMORY_FOLDER)}
MOST_CPUS = 8  # CONFIG_NR_CPUS
# setpriv's words: root's files are all the kernel gets of root.
WITHOUT_PRIVILEGES = ("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
ACCELERATOR = "native (UML)"


def cpus() -> int:
    """One for each CPU of the host that we may use."""
    return min(MOST_CPUS, len(os.sched_getaffinity(0)))


def require_memory(megabytes: int) -> None:
    free = shutil.disk_usage(MEMORY_FOLDER).free >> 20
    if free < megabytes:
        raise Unsuitable(
            f"{MEMORY_FOLDER}: has {free} MB free, the native machine's memory "
            f"takes {megabytes}; free some"
        )


_REFUSALS = re.compile(r"not functional|cannot create|noexec|failed|No space left")


def require_accepted(console: str) -> None:
    """Unsuitable if a machine did not start because the host forbids it."""
    for line in console.splitlines():
        if _REFUSALS.search(line) and not line.startswith("["):
            raise Unsuitable(f"the host does not let User-Mode Linux run: {line.strip()}")


def command(machine: Machine, initramfs: Path, repository: Path, words: str) -> list[str]:
    """The kernel's command line. Its console is our stderr.

    seccomp=on: a system call of the guest's processes costs two switches of the
    host's, not four.
    """
    return [
        str(machine.root.vmlinuz),
        *(f"mem={machine.memory_mb}M", f"ncpus={machine.vcpus}", "seccomp=on"),
        *(f"initrd={initramfs}", f"uml_dir={machine.output}", "umid=native"),
        *("con=null", "con0=null,fd:2", "con1=fd:0,fd:1", "ssl=null"),
        *("console=tty0", "quiet", "loglevel=5", "panic=-1", "noreboot"),
        "random.trust_cpu=on",
        "kasan_multi_shot",  # each report of a debug kernel; without, the first alone
        f"lab.root={machine.root.path}",
        f"lab.sluice={repository}",
        f"lab.out={machine.output}",
        *words.split(),
    ]


# Of the machine's threads, while it lasts; its processes then wait for it.
PAUSES = """
while kill -s STOP "$1"; do
    sleep 0.002
    kill -s CONT "$1"
    sleep 0.1
done 2>/dev/null
"""


def paused_often(pid: int) -> AbstractContextManager[object]:
    """Let the host's threads run beside a machine that leaves no CPU idle.

    Some kernels' schedulers forget them for seconds, and the machine then waits for
    what they hold: docs/kernels.md, "A host that forgets its threads". The pauses must
    come in time, hence the real-time priority. They cost some of the machine's time, so
    a benchmark has none.

    pid: of the machine.
    """
    command = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", PAUSES, "pauses", str(pid)]
    in_time = ["chrt", "--fifo", "1"] if os.geteuid() == 0 else []
    return running([*in_time, *command], stdout=None)


TICK = os.sysconf("SC_CLK_TCK")


def read_busy_seconds() -> float:
    """How long all CPUs together were not idle."""
    stat = Path("/proc/stat").read_text().split()
    user, nice, system, _idle, _iowait, *others = map(int, stat[1:9])
    return (user + nice + system + sum(others)) / TICK


def _cpu_seconds(pid: int) -> float:
    """Of a process, and of its children that have ended."""
    with suppress(OSError):
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
        return sum(map(int, after_name.split()[11:15])) / TICK
    return 0.0


def write_load(pid: int, output: Path) -> None:
    """The time, and the seconds that others have used of the host's CPUs until now, for
    who measures in the guest."""
    # Of the kernel's threads, and of the host's processes that run the guest's.
    used = read_busy_seconds() - sum(map(_cpu_seconds, (pid, *children(pid))))
    (output / "load.new").write_text(f"{time.monotonic():.2f} {used:.2f}\n")
    (output / "load.new").rename(output / "load")
