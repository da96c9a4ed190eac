# SPDX-License-Identifier: GPL-2.0-or-later
"""A virtual machine whose guest runs iperf3's server, over a plain or a vhost-net tap.

QEMU runs inside the lab's machine, and the same kernel inside QEMU: emulated twice, it
is slow, and boots for a minute or more. Scenarios use it; nothing is measured there.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lab.failure import WorkloadError
from lab.guest.devices import Device, attach, netns, run_tool
from lab.guest.program import folder, has_device, program
from lab.machines.initramfs import make_initramfs, needed_modules

PROGRAM = "qemu-system-x86_64"
PACKAGES = ("qemu-system-x86",)
BOOT_SECONDS = 600.0
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


def make_guest_initramfs() -> Path:
    """Busybox, iperf3 and the drivers of this kernel."""
    made = folder("qemu") / "initramfs"
    modules = needed_modules(Path("/"), os.uname().release, MODULES)
    # The program, what it is linked with, and who loads that.
    iperf3 = "/usr/bin/iperf3"
    linked = re.findall(r"(/\S+) \(0x", run_tool(["ldd", iperf3]))
    programs = [Path(path) for path in ("/bin/busybox", iperf3, *linked)]
    make_initramfs(made, INIT, programs, modules)
    return made


def arguments(tap: Device, vhost: bool, console: Path) -> list[str]:
    backend = f"tap,id=net,ifname={tap.name},script=no,downscript=no"
    return [
        *(PROGRAM, "-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-machine", "q35"),
        *("-accel", "kvm", "-accel", "tcg", "-m", f"{MEMORY_MB}M"),
        *("-kernel", f"/boot/vmlinuz-{os.uname().release}"),
        *("-initrd", str(make_guest_initramfs()), "-append", CMDLINE),
        *("-serial", f"file:{console}"),
        *("-netdev", backend + (",vhost=on" if vhost else "")),
        *("-device", f"virtio-net-pci,netdev=net,mac={INSIDE.mac}"),
    ]


def listens(console: str) -> bool:
    """Whether iperf3 in the guest waits for a client."""
    return console.rfind("Server listening") > console.rfind("Accepted connection")


@contextlib.contextmanager
def virtual_machine(kind: str, ring: int | None = None) -> Iterator[Device]:
    """The tap of a guest that answers, for this one use. kind: "tap", or "vhost"."""
    if kind == "vhost":
        run_tool(["modprobe", "vhost_net"])
    console = folder("qemu") / f"{kind}.console"
    console.write_text("")

    def said() -> str:
        return console.read_text(errors="replace").strip()

    with netns(f"vm-{kind}") as name:
        tap = replace(TAP, netns=name)
        with program(tap, arguments(tap, kind == "vhost", console)) as guest:
            guest.wait_until(lambda: has_device(tap), f"its device {tap.name}")
            attach(tap, INSIDE, ring=ring)
            try:
                answers = "iperf3 in its guest"
                guest.wait_until(lambda: listens(said()), answers, BOOT_SECONDS)
                yield tap
            except WorkloadError as error:
                last = "; ".join(said().splitlines()[-3:]) or "nothing"
                raise WorkloadError(f"{error}; the guest said: {last}") from None
