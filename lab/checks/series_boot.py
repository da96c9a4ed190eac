# SPDX-License-Identifier: GPL-2.0-or-later
"""The patched drivers in a VM: built as modules for the packaged kernel, put in
place of its own, and asked by the series' own selftests."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab.failure import LabError
from lab.machines import vm
from lab.machines.build import build_module
from lab.machines.matrix import NEWEST, kernel_named
from lab.machines.roots import ensure_root
from lab.setup import say

PACKAGES = ("python3-yaml",)  # the selftests' netlink client reads specs
DEADLINE_SECONDS = 600.0
SELFTEST = "tools/testing/selftests/net/tun_backpressure.py"
# Where the drivers' files are in the kernel -> where they are built.
_DRIVERS = {
    "drivers/net/tun.c": "tun.c",
    "drivers/net/tun_vnet.h": "tun_vnet.h",
    "drivers/net/tun_txq.h": "tun_txq.h",
    "drivers/vhost/net.c": "vhost_net.c",
    "drivers/vhost/vhost.h": "vhost.h",
    "include/linux/ptr_ring.h": "include/linux/ptr_ring.h",
    "include/linux/if_tun.h": "include/linux/if_tun.h",
}
_KBUILD = """
obj-m := tun.o vhost_net.o
LINUXINCLUDE := -I$(src)/include $(LINUXINCLUDE)
"""
# What the selftest and the library it stands on need of the kernel's tree.
_TREES = (
    "Documentation/netlink/specs",
    "tools/net/ynl/pyynl",
    "tools/testing/selftests/net/lib/py",
)
_PLAY = f"""
modprobe -r vhost_net tun
modprobe tap
modprobe vhost
insmod /out/tun.ko
insmod /out/vhost_net.ko
export PYTHONDONTWRITEBYTECODE=1
(cd /out/linux && python3 {SELFTEST})
insmod /out/sluice.ko
cd /sluice
exec python3 /out/states.py
"""
# With the patched driver the module serves no device, and says why.
_STATES = """
import fcntl, os, struct, subprocess, sys
file = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(file, 0x400454CA, struct.pack("16sH22x", b"tap0", 0x1002))
subprocess.run(["ip", "link", "set", "tap0", "up"], check=True)
shown = subprocess.run(
    [sys.executable, "-m", "sluice", "status", "tap0"], capture_output=True, text=True
)
print(shown.stdout, shown.stderr)
sys.exit("served by the driver (IFF_BACKPRESSURE)" not in shown.stdout)
"""


def stage(linux: Path, source: Path, output: Path) -> None:
    """linux: the patched tree; source: of the modules; output: the guest's /out."""
    for file, name in _DRIVERS.items():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(linux / file, target)
    (source / "Kbuild").write_text(_KBUILD.lstrip())
    for folder in _TREES:
        shutil.copytree(linux / folder, output / "linux" / folder, symlinks=True)
    shutil.copy(linux / SELFTEST, output / "linux" / SELFTEST)


def boot(linux: Path) -> None:
    """Play the selftests on the newest packaged kernel with the patched drivers."""
    root = ensure_root(kernel_named(NEWEST), PACKAGES)
    say(f"series: booting {root.release} with the patched drivers")
    with tempfile.TemporaryDirectory(prefix="sluice-series-") as name:
        source, output = Path(name) / "source", Path(name) / "out"
        stage(linux, source, output)
        first = build_module(root, source)
        for module in (*first.parent.glob("*.ko"), build_module(root)):
            shutil.copy(module, output)
        (output / "states.py").write_text(_STATES)
        machine = vm.Machine(root, output)
        job = {"kind": "command", "argv": ["sh", "-ec", _PLAY]}
        result = vm.run_job(machine, job, DEADLINE_SECONDS)
    for line in result.trouble:
        print(f"kernel: {line}")
    if result.status or result.trouble:
        raise LabError("series: selftests fail or the kernel complains (see above)")
