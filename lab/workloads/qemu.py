# SPDX-License-Identifier: GPL-2.0-or-later
"""A virtual machine: iperf3 into QEMU's guest, over a plain or a vhost-net tap.

QEMU runs inside the lab's machine, and the same kernel inside QEMU: emulated twice,
it is slow, boots for a minute or more, and receives at first a tenth of what it does
later, whatever the variant. Two guests of one variant differ more than two variants
in one guest; so all samples are taken in one, that is warmed up and rests (SIGSTOP)
between them. Upstream's flag is the opener's: it has one of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Iterator, List, Optional

from lab.guest.devices import Device, attach, make_netns, read_counters
from lab.guest.devices import read_stops, run_tool
from lab.guest.env import GuestEnv
from lab.guest.program import READY_SECONDS, Process, folder, has_device
from lab.guest.program import require_flag, read_version
from lab.guest.sample import sample
from lab.machines.initramfs import make_initramfs, needed_modules
from lab.row import Row, Sample, Workload, WorkloadError, parse_variant
from lab.workloads.tcp import LOADS, run_client
from lab.workloads.tcp import load as traffic

PROGRAM = "qemu-system-x86_64"
PACKAGES = ("qemu-system-x86",)
BOOT_SECONDS = 600.0
# Of traffic. One guest, windows of 6 s: 10 Mbit/s in most of the first 90 s, with stock
# and with sluice, 66 to 93 in all after that.
WARM_SECONDS = 100.0
# Of a sample, not counted: the guest has rested, TCP starts slowly, and a module that
# was just loaded may make the emulator translate the kernel's functions again.
OMITTED_SECONDS = 3
MEMORY_MB = 192
MODULES = ("virtio_pci", "virtio_net")
# The tap, and the guest's device at the other end of it.
TAP = Device("vm0", "10.94.0.1", "02:00:00:00:94:01")
INSIDE = Device("eth0", "10.94.0.2", "02:00:00:00:94:02")

INIT = f"""#!/bin/busybox sh
busybox mkdir -p /proc /tmp
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
exec </dev/null >/dev/ttyS0 2>&1
for module in /modules/*; do busybox insmod $module; done
busybox ip address add {INSIDE.address}/24 dev {INSIDE.name}
busybox ip link set {INSIDE.name} up
busybox arp -s {TAP.address} {TAP.mac}
while :; do
	/bin/ld-linux-x86-64.so.2 --library-path /bin \\
		/bin/iperf3 --server --forceflush --interval 0
	echo "iperf3 ended: $?"
done
"""
CMDLINE = (
    "console=ttyS0 quiet panic=-1 mitigations=off no5lvl nokaslr tsc=reliable "
    "random.trust_cpu=on net.ifnames=0 ipv6.disable=1 audit=0 apparmor=0 "
    "cryptomgr.notests nowatchdog"
)


def ensure_guest_initramfs() -> Path:
    """Busybox, iperf3 and the drivers of this kernel; made once a boot."""
    made = folder("qemu") / "initramfs"
    if made.exists():
        return made
    modules = needed_modules(Path("/"), os.uname().release, MODULES)
    # The program, what it is linked with, and who loads that.
    iperf3 = "/usr/bin/iperf3"
    linked = re.findall(r"(/\S+) \(0x", run_tool(["ldd", iperf3]))
    programs = [Path(path) for path in ("/bin/busybox", iperf3, *linked)]
    unfinished = made.with_suffix(".new")
    make_initramfs(unfinished, INIT, programs, modules)
    unfinished.rename(made)
    return made


def arguments(tap: Device, vhost: bool, console: Path, pid: Path) -> List[str]:
    backend = f"tap,id=net,ifname={tap.name},script=no,downscript=no"
    return [
        *(PROGRAM, "-nodefaults", "-no-user-config", "-no-reboot"),
        *("-daemonize", "-pidfile", str(pid)),
        *("-display", "none", "-machine", "q35"),
        *("-accel", "kvm", "-accel", "tcg", "-m", f"{MEMORY_MB}M"),
        *("-kernel", f"/boot/vmlinuz-{os.uname().release}"),
        *("-initrd", str(ensure_guest_initramfs()), "-append", CMDLINE),
        *("-serial", f"file:{console}"),
        *("-netdev", backend + (",vhost=on" if vhost else "")),
        *("-device", f"virtio-net-pci,netdev=net,mac={INSIDE.mac}"),
    ]


def listens(console: str) -> bool:
    """Whether iperf3 in the guest waits for a client."""
    return console.rfind("Server listening") > console.rfind("Accepted connection")


def _file(name: str, what: str) -> Path:
    """Of the guest with this name: its "pid", or its "console"."""
    return folder("qemu") / f"{name}.{what}"


class Guest(Process):
    """A virtual machine in a namespace of its own, running as a daemon."""

    def __init__(self, name: str) -> None:
        """name: the one it was started with."""
        self._pid_file = _file(name, "pid")
        super().__init__(PROGRAM, int(self._pid_file.read_text()))
        self.tap = replace(TAP, netns=name)
        self._console = _file(name, "console")

    def read_console(self) -> str:
        return self._console.read_text(errors="replace").strip()

    def wait_until_listens(self, seconds: float = READY_SECONDS) -> None:
        """Between two tests iperf3 refuses clients."""
        self.wait_until(
            lambda: listens(self.read_console()), "iperf3 in its guest", seconds
        )

    def boot(self, ring: Optional[int] = None) -> None:
        attach(self.tap, INSIDE, ring=ring)
        self.wait_until_listens(BOOT_SECONDS)

    def end(self) -> None:
        """Kill it if it runs; only its console is kept."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        while has_device(self.tap):
            time.sleep(0.1)
        run_tool(["ip", "netns", "del", str(self.tap.netns)])
        self._pid_file.unlink()


def _start(kind: str, name: str, preload: Optional[str] = None) -> Guest:
    """QEMU in a namespace of that name; its guest has yet to boot."""
    if kind == "vhost":
        run_tool(["modprobe", "vhost_net"])
    tap = replace(TAP, netns=make_netns(name))
    console = _file(name, "console")
    console.write_text("")
    environment = [f"LD_PRELOAD={preload}"] if preload else []
    argv = arguments(tap, kind == "vhost", console, _file(name, "pid"))
    run_tool(tap.command("env", *environment, *argv))
    return Guest(name)


@contextlib.contextmanager
def _told(guest: Guest) -> Iterator[None]:
    """A failure is reported with the last lines of the guest, which is ended."""
    try:
        yield
    except BaseException as error:
        last = "; ".join(guest.read_console().splitlines()[-3:]) or "nothing"
        guest.end()
        if isinstance(error, WorkloadError):
            raise WorkloadError(f"{error}; the guest said: {last}") from None
        raise


@contextlib.contextmanager
def virtual_machine(kind: str, ring: Optional[int] = None) -> Iterator[Guest]:
    """A guest that answers, for this one use. kind: "tap", or "vhost"."""
    guest = _start(kind, f"vm-{kind}")
    with _told(guest):
        guest.boot(ring)
        yield guest
    guest.end()


def _find_resting(name: str) -> Optional[Guest]:
    """The paused guest of that name; one whose sample was cut short is ended."""
    guest = Guest(name) if _file(name, "pid").exists() else None
    if guest and guest.read_state() != "T":
        guest.end()
        return None
    return guest


@contextlib.contextmanager
def _warm_machine(kind: str, preload: Optional[str]) -> Iterator[Guest]:
    """The paused guest of this boot; the first caller boots and warms it."""
    name = f"warm-{kind}" + ("-upstream" if preload else "")
    resting = _find_resting(name)
    guest = resting or _start(kind, name, preload)
    with _told(guest):
        if resting:
            os.kill(guest.pid, signal.SIGCONT)
        else:
            guest.boot()
            run_client(1, WARM_SECONDS, near=guest.tap, far=INSIDE)
        guest.wait_until_listens()
        yield guest
        os.kill(guest.pid, signal.SIGSTOP)


def run(kind: str, load: str, variant: str, seconds: float, env: GuestEnv) -> Sample:
    _, streams, options = LOADS[load]
    upstream = parse_variant(variant).base == "upstream"
    preload = env.helper("backpressure_preload") if upstream else None
    options = [*options, "--omit", str(OMITTED_SECONDS)]
    with _warm_machine(kind, preload) as guest:
        tap = guest.tap
        require_flag(tap, variant)
        stops = read_stops(tap)
        before, cpu = read_counters(tap), guest.read_cpu_seconds()
        received, pinged = traffic(streams, seconds, *options, near=tap, far=INSIDE)
        guest.wait_until_listens()
        counts, spent = read_counters(tap) - before, guest.read_cpu_seconds() - cpu
        stops = read_stops(tap) - stops
    extra = {
        "version": read_version(PACKAGES[0]),
        "retransmits": received.retransmits,
        "stops": stops,
        "cpu_seconds": [round(spent, 2)],
    }
    # segmented: the guest's device takes large packets
    return sample(received.mbit, counts, extra, pinged, segmented=True)


WORKLOADS = [
    Workload(
        Row(
            name=f"qemu_{kind}_{load}",
            title=f"{title}, {told} into it",
            unit="Mbit/s",
            usual=load == "tcp_1",
            floor=0.97,
            latency_share=1 / 3,
            setup_seconds=BOOT_SECONDS + WARM_SECONDS,
            always_loads=True,
        ),
        partial(run, kind, load),
    )
    for kind, title in (("tap", "QEMU on a tap"), ("vhost", "QEMU with vhost-net"))
    for load, (told, _, _) in LOADS.items()
]
