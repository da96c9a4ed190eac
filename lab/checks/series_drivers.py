# SPDX-License-Identifier: GPL-2.0-or-later
"""The drivers of a patched kernel tree, built as modules for another build of that
kernel."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab.machines.build import KERNEL_READER, build_module, source_files
from lab.machines.chroot import Root
from lab.row import SERIES

# Where a file is in the kernel -> where it is built.
_DRIVERS = {
    "drivers/net/tun.c": "tun.c",
    "drivers/net/tun_vnet.h": "tun_vnet.h",
    "drivers/net/tun_txq.h": "tun_txq.h",
    "drivers/vhost/net.c": "vhost_net.c",
    "drivers/vhost/vhost.h": "vhost.h",
}
# The headers that the series changes keep their place.
_HEADERS = (
    "include/linux/hrtimer.h",
    "include/linux/if_tun.h",
    "include/linux/ptr_ring.h",
    "include/uapi/linux/if_tun.h",
)
_KBUILD = """
obj-m := tun.o vhost_net.o
LINUXINCLUDE := -I$(src)/include -I$(src)/include/uapi $(LINUXINCLUDE)
"""
KUNIT = "lib/tests/ptr_ring_kunit.c"
# The lab's reader calls tun_wake_queue(), which the series removes.
_NATIVE_KBUILD = """
obj-m += ptr_ring_kunit.o kernel_reader.o
ccflags-y += -I$(src)
CFLAGS_kernel_reader.o := -D'tun_wake_queue(file,taken)=do{}while(0)'
"""


def stage_drivers(root: Root, linux: Path, output: Path) -> None:
    """tun.ko and vhost_net.ko for the root's kernel, in series/ of the guest's /out. A
    native kernel, which has KUnit, gets ptr_ring_kunit.ko and kernel_reader.ko, too.

    linux: the patched tree.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-drivers-") as name:
        source = Path(name)
        places = _DRIVERS | {header: header for header in _HEADERS}
        for file, short in places.items():
            if (linux / file).exists():  # older kernels lack some
                target = source / short
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(linux / file, target)
        kbuild = _KBUILD
        if root.native:
            kbuild += _NATIVE_KBUILD
            shutil.copy(linux / KUNIT, source)
            for path in source_files(KERNEL_READER):
                shutil.copy(path, source)
        (source / "Kbuild").write_text(kbuild.lstrip())
        modules = build_module(root, source).parent.glob("*.ko")
        (output / SERIES).mkdir()
        for module in modules:
            shutil.copy(module, output / SERIES)
