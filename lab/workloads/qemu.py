# SPDX-License-Identifier: GPL-2.0-or-later
"""A virtual machine: iperf3 into QEMU's guest, over a plain or a vhost-net tap.

QEMU runs inside the lab's machine, and the same kernel inside QEMU: emulated twice,
it is slow, and boots for a minute or more before each sample. A guest that has just
booted receives a tenth of what it does later, whatever the variant; so it is warmed up.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional

from lab.initramfs import format_archive, module_files
from lab.workloads import latency
from lab.workloads.devices import Device, attach, netns, read_counters, run_tool
from lab.workloads.devices import wait_drained
from lab.workloads.env import GuestEnv
from lab.workloads.program import Program, folder, has_device, program
from lab.workloads.program import read_backpressure, read_version
from lab.workloads.row import Row, Sample, WorkloadError, parse_variant
from lab.workloads.tcp import TARGET_US, parse_iperf3, run_client

PROGRAM = "qemu-system-x86_64"
PACKAGES = ("qemu-system-x86",)
BOOT_SECONDS = 600.0
# Of traffic. One guest, windows of 6 s: 10 Mbit/s in most of the first 90 s, with stock
# and with sluice, 66 to 93 in all after that.
WARM_SECONDS = 100.0
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
	/bin/ld-linux-x86-64.so.2 --library-path /bin /bin/iperf3 -s --forceflush
	echo "iperf3 ended: $?"
done
"""
CMDLINE = (
    "console=ttyS0 quiet panic=-1 mitigations=off no5lvl nokaslr tsc=reliable "
    "random.trust_cpu=on net.ifnames=0 ipv6.disable=1 audit=0 apparmor=0 "
    "cryptomgr.notests nowatchdog"
)

TITLES = {"tap": "QEMU on a tap", "vhost": "QEMU with vhost-net"}
LOADS = {"tcp_1": ("1 TCP", 1), "tcp_8": ("8 TCP", 8)}

ROWS = [
    Row(
        name=f"qemu_{kind}_{load}",
        title=f"{title}, {told} into it",
        unit="Mbit/s",
        demo=load == "tcp_1",
        floor=0.97,
        latency_share=1 / 3,
        setup_seconds=BOOT_SECONDS + WARM_SECONDS,
        targets=[TARGET_US],  # beside the whole ring: a guest rests now and then
    )
    for kind, title in TITLES.items()
    for load, (told, _) in LOADS.items()
]


def _iperf3_files() -> List[Path]:
    """The program, what it is linked with, and who loads that."""
    program = Path("/usr/bin/iperf3")
    linked = re.findall(r"(/\S+) \(0x", run_tool(["ldd", str(program)]))
    return [program, *map(Path, linked)]


def ensure_guest_initramfs() -> Path:
    """Busybox, iperf3 and the drivers of this kernel; made once a boot."""
    made = folder("qemu") / "initramfs"
    if made.exists():
        return made
    modules = Path("/lib/modules") / os.uname().release
    files = [("init", INIT.encode()), *module_files(modules, MODULES)]
    for path in (Path("/bin/busybox"), *_iperf3_files()):
        files.append((f"bin/{path.name}", path.read_bytes()))
    unfinished = made.with_suffix(".new")
    unfinished.write_bytes(format_archive(files))
    unfinished.rename(made)
    return made


def arguments(tap: Device, vhost: bool, console: Path) -> List[str]:
    backend = f"tap,id=net,ifname={tap.name},script=no,downscript=no"
    return [
        *(PROGRAM, "-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-machine", "q35"),
        *("-accel", "kvm", "-accel", "tcg", "-m", f"{MEMORY_MB}M"),
        *("-kernel", f"/boot/vmlinuz-{os.uname().release}"),
        *("-initrd", str(ensure_guest_initramfs()), "-append", CMDLINE),
        *("-serial", f"file:{console}"),
        *("-netdev", backend + (",vhost=on" if vhost else "")),
        *("-device", f"virtio-net-pci,netdev=net,mac={INSIDE.mac}"),
    ]


class Guest(NamedTuple):
    tap: Device
    process: Program
    console: Path

    def wait_for_server(self, test: int, seconds: float = 20.0) -> None:
        """Until iperf3 in it listens for that test, counted from 1.

        Between two of them it does not, and a client would be refused.
        """
        self.process.wait_until(
            lambda: _read_console(self.console).count("Server listening") >= test,
            f"iperf3 in its guest, test {test}",
            seconds,
        )


def _read_console(console: Path) -> str:
    return console.read_text(errors="replace").strip()


@contextlib.contextmanager
def _heard(console: Path) -> Iterator[None]:
    """What goes wrong is told with the guest's last words."""
    try:
        yield
    except WorkloadError as error:
        last = "; ".join(_read_console(console).splitlines()[-3:]) or "nothing"
        raise WorkloadError(f"{error}; the guest said: {last}") from None


@contextlib.contextmanager
def virtual_machine(
    kind: str, preload: Optional[str] = None, ring: Optional[int] = None
) -> Iterator[Guest]:
    """A guest that answers, in a namespace of its own.

    kind: "tap", or "vhost".
    """
    if kind == "vhost":
        run_tool(["modprobe", "vhost_net"])
    name = f"vm-{kind}" + ("-upstream" if preload else "")
    tap = replace(TAP, netns=name)
    console = folder("qemu") / f"{name}.console"
    console.write_text("")
    argv = arguments(tap, kind == "vhost", console)
    with netns(name), _heard(console), program(tap, argv, preload) as process:
        process.wait_until(lambda: has_device(tap), f"its device {tap.name}")
        attach(tap, INSIDE, ring=ring)
        guest = Guest(tap, process, console)
        guest.wait_for_server(1, BOOT_SECONDS)
        yield guest


def run(row: Row, variant: str, seconds: float, env: GuestEnv) -> Sample:
    _, kind, load = row.name.split("_", 2)
    streams = LOADS[load][1]
    wanted = parse_variant(variant)
    upstream = wanted.base == "upstream"
    preload = env.helper("backpressure_preload") if upstream else None
    with virtual_machine(kind, preload, wanted.ring) as guest:
        tap, process = guest.tap, guest.process
        if read_backpressure(tap) != upstream:
            raise WorkloadError(
                f"{tap.name}: IFF_BACKPRESSURE is not as {variant} wants it"
            )
        run_client(streams, WARM_SECONDS, near=tap, far=INSIDE)
        guest.wait_for_server(2)
        before, cpu = read_counters(tap), process.read_cpu_seconds()
        with latency.ping(tap, INSIDE) as ping:
            received = parse_iperf3(run_client(streams, seconds, near=tap, far=INSIDE))
            pinged = ping.end()
        counts = wait_drained([tap]) - before
        spent = process.read_cpu_seconds() - cpu
    return Sample(
        value=received.mbit,
        sent=counts.offered,
        read=counts.read,
        **counts.unread(),
        segmented=True,  # the guest's device takes large packets
        extra={
            "version": read_version(PACKAGES[0]),
            "retransmits": received.retransmits,
            "requeues": counts.requeues,
            "pings_sent": pinged.sent,
            "pings_received": pinged.received,
            "cpu_seconds": [round(spent, 2)],
        },
        **pinged.fields(),
    )
