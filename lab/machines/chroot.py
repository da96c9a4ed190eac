# SPDX-License-Identifier: GPL-2.0-or-later
"""A root file system, how to run a script in it, and the machine that boots it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import processes
from lab.failure import LabError
from lab.machines.matrix import HOST, MEMORY_MB, Arch

VCPUS = 4
NO_POLICY = "audit=0 apparmor=0 selinux=0"  # nothing watches the guest's processes

# Runs $3 in the root $1 with the directory $2 as its /mnt. The mounts live in
# a namespace of their own: the cached root stays as it is.
_CHROOT = """
mount --bind "$2" "$1/mnt"
mount -t proc proc "$1/proc"
mount -t tmpfs tmp "$1/tmp"
mount --bind /dev "$1/dev"
exec chroot "$1" /bin/sh -ec "$3"
"""


@dataclass(frozen=True)
class Root:
    kernel: str  # its name in the matrix
    path: Path
    release: str = ""  # uname -r; none if it has no kernel
    package: str = ""  # the kernel package and its version
    key: str = ""
    arch: Arch = HOST
    workshop: Path | None = None  # where its modules are built, if not in path
    make: str = ""  # further arguments of make
    native: bool = False  # its kernel is a process, see lab.machines.native

    @property
    def vmlinuz(self) -> Path:
        return self.path / "boot" / f"vmlinuz-{self.release}"


@dataclass(frozen=True)
class Machine:
    """What a guest is given, whatever starts it."""

    root: Root
    output: Path
    vcpus: int = VCPUS
    memory_mb: int = MEMORY_MB
    counted: bool = False  # an instruction takes 1 ns, the vCPUs take turns; emulated
    disk: Path | None = None  # an image of its root, instead of the share
    changes: Path | None = None  # an image that keeps what it changes; with a disk
    cmdline: str = ""  # more of the kernel's command line
    policy: str = NO_POLICY


def run_in_root(root: Root, work: Path, script: str) -> tuple[int, str]:
    """Run a script in the root, in /mnt which is work: status and output.

    For another architecture: in its workshop, whose programs run on this machine.
    """
    command = ["unshare", "--mount", "--propagation", "private"]
    command += ["sh", "-ec", _CHROOT, "sh"]
    command += [str(root.workshop or root.path), str(work), "cd /mnt; " + script]
    done = processes.run(
        command,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout


def first_error(log: str) -> str:
    """The first line that names an error, else the last."""
    found = re.search(r"^.*(error:|ERROR:).*$", log, re.MULTILINE)
    return found[0].strip() if found else processes.last_line(log)


def must_run_in_root(
    root: Root, work: Path, script: str, failure: str, remedy: str
) -> str:
    """The output of a script; if it fails that is shown, and LabError says why."""
    status, log = run_in_root(root, work, script)
    if status != 0:
        print(log)
        raise LabError(f"{failure} ({first_error(log)}; see above); {remedy}")
    return log
