# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot of one kernel, in QEMU or as a process: starts it, follows it, reads its
verdict.

The verdict comes as a file the guest writes to /out; a VM that ends or runs
out of time without one is lost, which is not the same as failed. The console
is only read for signs of a broken kernel, which fail any run.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.cache import cache_dir
from lab.failure import LabError
from lab.machines.chroot import VCPUS, Machine, Root
from lab.machines.emulator import ensure_qemu
from lab.machines.initramfs import ensure_initramfs
from lab.machines.matrix import HOST, Kernel
from lab.machines.native import boot as native
from lab.processes import running
from lab.setup import say
from lab.trouble import parse_trouble

REPOSITORY = Path(__file__).resolve().parents[2]
INTERRUPTS_NICE = -15
COUNTED = "TCG that counts instructions"
BOOT_SECONDS = 600.0  # a boot takes 10 to 60 s, emulated, on a busy host

CMDLINE = (
    "quiet loglevel=5 panic=-1 oops=panic net.ifnames=0 "
    "mitigations=off nokaslr random.trust_cpu=on "
    "nowatchdog cryptomgr.notests "
    "rcupdate.rcu_cpu_stall_timeout=60"
)
SHELL = "lab.shell"  # for the init: a shell, no job

Job = dict[str, Any]  # see lab/guest/job.py
Say = Callable[[str], None]  # tells a line at once


class VmLost(LabError):
    """The VM ended, or ran out of time, without a verdict."""


class VmNotBooted(VmLost):
    """It was lost before it began its job, so nothing of ours ran in it."""


class EmulatorRace(VmLost):
    """A vCPU ran a breakpoint that another had already overwritten.

    While the kernel changes an instruction (ftrace, static keys), a breakpoint stands in
    its place. QEMU's TCG sometimes runs its old translation of the breakpoint after that;
    a CPU does not. Linux takes that for a fault: docs/kernels.md.
    """


@dataclass
class VmResult:
    status: int
    reason: str
    trouble: list[str] = field(default_factory=list)


@functools.cache
def read_kvm() -> bool:
    """Whether KVM works; if only /dev/kvm is there that is said, once."""
    kvm = Path("/dev/kvm")
    if not kvm.exists():
        return False
    flags = Path("/proc/cpuinfo").read_text()
    if re.search(r"^flags.*\b(vmx|svm)\b", flags, re.MULTILINE):
        with suppress(OSError):
            os.close(os.open(kvm, os.O_RDWR))
            return True
    say("/dev/kvm is there, but does not work (a nested VM?): using the emulator")
    return False


def accelerator(root: Root, counted: bool = False) -> str:
    if root.native:
        return native.ACCELERATOR
    if counted:
        return COUNTED
    return "KVM" if root.arch is HOST and read_kvm() else "TCG"


def default_vcpus(kernel: Kernel) -> int:
    return native.cpus() if kernel.native else VCPUS


def _acceleration(machine: Machine) -> list[str]:
    cpu = machine.root.arch.cpu
    return {
        "KVM": ["-accel", "kvm", "-cpu", "host"],
        "TCG": ["-accel", "tcg,thread=multi", "-cpu", cpu],
        COUNTED: [
            *("-accel", "tcg,thread=single", "-cpu", cpu),
            *("-icount", "shift=0,sleep=off"),
        ],
    }[accelerator(machine.root, machine.counted)]


def _share(tag: str, path: Path, more: str = "") -> list[str]:
    options = "security_model=none,multidevs=remap" + more
    return ["-virtfs", f"local,mount_tag={tag},path={path},{options}"]


def _root(machine: Machine) -> list[str]:
    if machine.disk is None:
        return _share("root", machine.root.path, ",readonly=on")
    drives = ["-drive", f"file={machine.disk},format=raw,if=virtio,snapshot=on"]
    if machine.changes is not None:
        drives += ["-drive", f"file={machine.changes},format=raw,if=virtio"]
    return drives


# Our terminal, for a shell in the guest.
_TERMINAL = (
    *("-device", "virtio-serial", "-chardev", "stdio,id=talk,signal=off"),
    *("-device", "virtconsole,chardev=talk"),
)


def _command(machine: Machine, shell: bool = False) -> list[str]:
    initramfs = ensure_initramfs(machine.root, machine.disk is not None)
    if machine.root.native:
        native.require_memory(machine.memory_mb)
        return native.command(machine, initramfs, REPOSITORY, SHELL * shell)
    arch = machine.root.arch
    own = f"{machine.policy} {machine.cmdline} {SHELL * shell}"
    cmdline = f"console={arch.console} {arch.cmdline} {CMDLINE} {own}"
    return [
        str(ensure_qemu(arch)),
        *("-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-machine", arch.machine),
        *_acceleration(machine),
        *("-smp", str(machine.vcpus), "-m", f"{machine.memory_mb}M"),
        *("-kernel", str(machine.root.vmlinuz), "-initrd", str(initramfs)),
        *("-append", " ".join(cmdline.split())),
        *("-serial", f"file:{machine.output / 'console.log'}"),
        *("-device", "virtio-rng"),
        *_root(machine),
        *_share("sluice", REPOSITORY, ",readonly=on"),
        *_share("out", machine.output),
        *(_TERMINAL if shell else ()),
    ]


@contextmanager
def _started(
    machine: Machine, command: list[str], shell: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """QEMU or the kernel, killed at the end, or when we die; a shell's has our terminal,
    a job's has a session of its own."""
    is_native = machine.root.native
    privileges = native.WITHOUT_PRIVILEGES if is_native else ()
    log = machine.output / ("console.log" if is_native else "qemu.log")
    with open(log, "w") as errors, running(
        ["setpriv", "--pdeathsig", "KILL", *privileges, *command],
        stdin=None if shell else subprocess.DEVNULL,
        stdout=None if shell else errors,
        stderr=errors,
        start_new_session=not shell,
        env={**os.environ, **native.ENVIRONMENT} if is_native else None,
    ) as process:
        yield process


def _prefer_timers(pid: int, vcpus: int) -> None:
    """Let the thread that delivers interrupts run before the virtual CPUs, once these
    have threads of their own.

    With as many busy virtual CPUs as the host has, a TCG guest's timers come
    milliseconds late otherwise, which no machine's timers do.
    """
    with suppress(OSError):
        if len(os.listdir(f"/proc/{pid}/task")) > vcpus:
            os.setpriority(os.PRIO_PROCESS, pid, INTERRUPTS_NICE)


def _follow(
    process: subprocess.Popen[str], machine: Machine, deadline: float, progress: Say
) -> str:
    """Tell the lines of /out/progress until the VM ends, or its time; how it ended."""
    started, rest = time.monotonic(), ""
    with open(machine.output / "progress", errors="replace") as lines:
        while True:
            ended = process.poll()
            *whole, rest = (rest + lines.read()).split("\n")
            for line in whole:
                progress(line)
            if ended is not None:
                return f"it ended with status {ended}"
            limit = deadline if _has_begun(machine) else min(BOOT_SECONDS, deadline)
            if time.monotonic() - started > limit:
                return f"it was stopped after {limit:.0f} s"
            if machine.root.native:
                native.write_load(process.pid, machine.output)
            else:
                _prefer_timers(process.pid, machine.vcpus)
            time.sleep(0.2)


def read_text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _keep_console(machine: Machine, console: str) -> Path:
    kept = cache_dir() / "lost" / f"{machine.root.kernel}-{int(time.time())}.log"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(console)
    return kept


def _has_begun(machine: Machine) -> bool:
    """Whether the guest is up and has read its job; see lab/guest/job.py."""
    return (machine.output / "begun").exists()


def _is_race(machine: Machine, console: str) -> bool:
    """Whether the first fault is a breakpoint of which memory has no trace.

    "Code:" shows the memory; the byte before the one in <> is what the CPU ran.
    """
    fault = re.search(r"\bOops: (int3)?.*?\bCode: .*?(\w\w) <", console, re.DOTALL)
    emulated = accelerator(machine.root, machine.counted) == "TCG"
    return emulated and fault is not None and fault[1] == "int3" and fault[2] != "cc"


def _result(machine: Machine, ending: str) -> VmResult:
    """The guest's verdict and the console's; VmLost without a verdict."""
    console = read_text(machine.output / "console.log")
    trouble = parse_trouble(console)
    verdict = read_text(machine.output / "verdict.json")
    if not verdict:
        if machine.root.native and not _has_begun(machine):
            native.require_accepted(console)
        qemu = read_text(machine.output / "qemu.log").strip().splitlines()
        last = [line.strip() for line in console.splitlines() if line.strip()]
        detail = "; ".join(trouble[:3] or last[-3:] or ["nothing"])
        detail += "".join(f"; {place}" for place in re.findall(r"RIP: .*", console)[:1])
        detail += "".join(f"; QEMU said: {line}" for line in qemu[-1:])
        lost = VmLost if _has_begun(machine) else VmNotBooted
        if _is_race(machine, console):
            lost = EmulatorRace
        raise lost(
            f"kernel {machine.root.kernel}: VM lost, {ending} without a verdict; "
            f"its console said: {detail}; see {_keep_console(machine, console)}"
        )
    facts = json.loads(verdict)
    return VmResult(facts["status"], facts["reason"], trouble)


def run_job(
    machine: Machine, job: Job, deadline: float, progress: Say = print, tries: int = 2
) -> VmResult:
    """Boot, do the job, power off; deadline in seconds for all of it.

    An emulator that dies on the way up is tried once more, and says so: the job,
    and with it whatever is to be tested, had not begun.
    """
    machine.output.mkdir(parents=True, exist_ok=True)
    for stale in ("begun", "verdict.json", "result.json", "console.log"):
        (machine.output / stale).unlink(missing_ok=True)
    (machine.output / "progress").write_text("")
    (machine.output / "job.json").write_text(json.dumps(job, indent=1))
    command = _command(machine)
    (machine.output / "qemu.json").write_text(json.dumps(command))
    with ExitStack() as running:
        process = running.enter_context(_started(machine, command))
        if machine.root.native and job["kind"] == "tests":
            running.enter_context(native.paused_often(process.pid))
        ending = _follow(process, machine, deadline, progress)
    try:
        result = _result(machine, ending)
    except VmNotBooted as error:
        if tries == 1:
            raise
        progress(f"lab: {error}; its job had not begun: booting once more")
        return run_job(machine, job, deadline, progress, tries - 1)
    if result.trouble:
        kept = _keep_console(machine, read_text(machine.output / "console.log"))
        progress(f"lab: kernel {machine.root.kernel} reported trouble; see {kept}")
    return result


def run_shell(machine: Machine) -> int:
    with _started(machine, _command(machine, shell=True), shell=True) as process:
        return process.wait()
