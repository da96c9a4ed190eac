# SPDX-License-Identifier: GPL-2.0-or-later
"""The drivers of a patched kernel tree, built as modules for another build of that
kernel."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab.machines.build import KERNEL_READER, build_module, source_files
from lab.machines.chroot import Root

# Where a file is in the kernel -> where it is built.
_DRIVERS = {
    "drivers/net/tun.c": "tun.c",
    "drivers/net/tun_vnet.h": "tun_vnet.h",
    "drivers/net/tun_txq.h": "tun_txq.h",
    "drivers/vhost/net.c": "vhost_net.c",
    "drivers/vhost/vhost.h": "vhost.h",
    **{
        f"include/{header}": f"include/{header}"
        for header in (
            *("linux/hrtimer.h", "linux/if_tun.h", "linux/ptr_ring.h"),
            "uapi/linux/if_tun.h",
        )
    },
}
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


def build_drivers(root: Root, linux: Path) -> list[Path]:
    """tun.ko and vhost_net.ko for the root's kernel. A native kernel, which has KUnit,
    gets ptr_ring_kunit.ko and kernel_reader.ko, too.

    linux: the patched tree.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-drivers-") as name:
        source = Path(name)
        for file, short in _DRIVERS.items():
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
        return sorted(build_module(root, source).parent.glob("*.ko"))
