# SPDX-License-Identifier: GPL-2.0-or-later
"""The patched drivers, built as modules for another build of their kernel, and loaded
in a VM instead of that kernel's own: the series' selftests are played there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from lab.checks.driver import LAST, SELFTEST, driver_files
from lab.failure import LabError
from lab.machines import vm
from lab.machines.build import (
    KERNEL_READER,
    Files,
    build_module,
    build_modules,
    source_files,
)
from lab.machines.chroot import Root
from lab.machines.matrix import Kernel
from lab.machines.roots import ensure_root
from lab.setup import say
from lab.variants import SERIES

# Where a file is in the kernel -> where it is built.
_DRIVERS = {
    "drivers/net/tun.c": "tun_main.c",
    "drivers/net/tun_vnet.h": "tun_vnet.h",
    "drivers/net/tun_txq.c": "tun_txq.c",
    "drivers/net/tun_txq.h": "tun_txq.h",
    "drivers/net/tun_tx_flow.c": "tun_tx_flow.c",
    "drivers/net/tun_tx_flow.h": "tun_tx_flow.h",
    "drivers/vhost/net.c": "vhost_net.c",
    "drivers/vhost/vhost.h": "vhost.h",
}
# One module has all of tun.
_TUN = ("tun_main.c", "tun_txq.c", "tun_tx_flow.c")
# The headers that the series changes keep their place.
_HEADERS = (
    "include/linux/hrtimer.h",
    "include/linux/if_tun.h",
    "include/linux/ptr_ring.h",
    "include/uapi/linux/if_tun.h",
)
_KBUILD = """
obj-m := tun.o vhost_net.o
tun-y := {objects}
LINUXINCLUDE := -I$(src)/include -I$(src)/include/uapi $(LINUXINCLUDE)
"""
KUNIT = ("lib/tests/ptr_ring_kunit.c", "drivers/net/tun_tx_flow_kunit.c")
_NATIVE_KBUILD = """
obj-m += kernel_reader.o {tests}
ccflags-y += -I$(src)
"""
# The lab's reader calls tun_wake_queue(), which the series removes.
_NO_WAKE = "CFLAGS_kernel_reader.o := -D'tun_wake_queue(file,taken)=do{}while(0)'\n"
PACKAGES = ("python3-yaml",)  # the selftests' netlink client reads specs
DEADLINE_SECONDS = 600.0
# What the selftest and the library it stands on need of the kernel's tree.
_TREES = (
    "Documentation/netlink/specs",
    "tools/net/ynl/pyynl",
    "tools/testing/selftests/net/lib/py",
)
_SELFTEST = f"""
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/sluice
python3 -c "
from lab.guest.env import GuestEnv
GuestEnv().use_drivers('$1')"
(cd /out/linux && python3 {SELFTEST})
"""
_PLAY = f"""
if test -e /out/{SERIES}/ptr_ring_kunit.ko; then
    modprobe kunit enable=1 autorun=1
    for suite in ptr_ring tun_tx_flow; do
        insmod /out/{SERIES}/${{suite}}_kunit.ko
        dmesg | grep -q "# $suite: pass:[1-9][0-9]* fail:0 "
    done
    dmesg | grep -E '# (ptr_ring|tun_tx_flow): pass|    (not )?ok '
    (cd /out/linux && python3 {SELFTEST} --bench 0.5 1)
fi
test -e /out/sluice.ko || exit 0
# by force where the series changes headers, and so the versions of symbols
insmod /out/sluice.ko || insmod -f /out/sluice.ko || (dmesg | tail -n 20; exit 1)
# With the patched driver the module serves no device, and says why.
python3 -c "
import subprocess
from lab.guest.tun import IFF_NO_PI, IFF_TAP, open_queue
tap = open_queue(IFF_TAP | IFF_NO_PI, 'tap0')
subprocess.run(['ip', 'link', 'set', 'tap0', 'up'], check=True)
subprocess.run(['python3', '-m', 'sluice', 'status', 'tap0'], check=True)" |
    tee /dev/stderr | grep -F 'served by the driver'
"""


def stage_drivers(root: Root, linux: Path, output: Path) -> None:
    """tun.ko and vhost_net.ko for the root's kernel, in this new folder. A native kernel,
    which has KUnit, gets the KUnit tests and kernel_reader.ko, too.

    linux: the patched tree.
    """
    tests = {test: Path(test).name for test in KUNIT if root.native}
    places = _DRIVERS | {header: header for header in _HEADERS} | tests
    there = {name: linux / file for file, name in places.items()}
    # Older kernels and early patches lack some.
    there = {name: path for name, path in there.items() if path.exists()}

    def objects(names: Iterable[str]) -> str:
        return " ".join(name.replace(".c", ".o") for name in names if name in there)

    kbuild = _KBUILD.format(objects=objects(_TUN))
    files: Files = {**there}
    if root.native:
        files |= {path.name: path for path in source_files(KERNEL_READER)}
        kbuild += _NATIVE_KBUILD.format(tests=objects(tests.values()))
        if "tun_wake_queue" not in there["include/linux/if_tun.h"].read_text():
            kbuild += _NO_WAKE
    files["Kbuild"] = kbuild.lstrip()
    output.mkdir()
    for module in build_modules(root, "series/", files):
        shutil.copy(module, output)


def boot(
    kernel: Kernel, linux: Path, source: Path, drivers: str = SERIES, patch: int = LAST
) -> None:
    """Play the selftest of a patch with its drivers; of the last one also the KUnit tests
    and a short bench, on a native kernel, and the module beside them.

    linux: the patched tree of this kernel; source: the newest kernel's, which the
    selftest's library comes from.
    """
    root = ensure_root(kernel, PACKAGES)
    say(f"series: booting {root.release} with the drivers {drivers}")
    with tempfile.TemporaryDirectory(prefix="sluice-series-") as name:
        output = Path(name)
        for folder in _TREES:
            copy = output / "linux" / folder
            shutil.copytree(source / folder, copy, symlinks=True)
        (output / "linux" / SELFTEST).write_text(driver_files(patch)[SELFTEST])
        stage_drivers(root, linux, output / drivers)
        if kernel.module:
            shutil.copy(build_module(root), output)
        machine = vm.Machine(root, output)
        script = _SELFTEST + _PLAY * (patch == LAST)
        job = {"kind": "command", "argv": ["sh", "-ec", script, "sh", drivers]}
        result = vm.run_job(machine, job, DEADLINE_SECONDS)
    for line in result.trouble:
        print(f"kernel: {line}")
    if result.status or result.trouble:
        raise LabError(
            f"series: on {kernel.name} the tests of patch {patch} fail or the kernel "
            "complains (see above)"
        )
