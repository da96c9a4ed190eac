# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's own initramfs: busybox, a few modules and lab/guest/init."""

from __future__ import annotations

import lzma
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.cache import cache_dir, cached, digest
from lab.machines.chroot import Root

# What the root's file systems and a shell's terminal need, where the kernel has not
# built it in.
MODULES = ("virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay")
# The root on a disk; ext4 asks the kernel for crc32c by its name.
DISK_MODULES = ("virtio_blk", "crc32c_generic", "ext4")
INIT = Path(__file__).resolve().parents[1] / "guest" / "init"


def needed_modules(tree: Path, release: str, names: Sequence[str]) -> list[Path]:
    """These modules of a kernel and their needs, in the order to insert them, but for
    those that are built in, or are not there."""
    command = ["modprobe", "--config=/dev/null", "--dirname", str(tree)]
    command += ["--set-version", release, "--show-depends", "--all", *names]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    inserted = [line.split()[1] for line in output.splitlines() if line[:7] == "insmod "]
    return [Path(path) for path in dict.fromkeys(inserted)]


def make_initramfs(
    image: Path, init: str, programs: Sequence[Path], modules: Sequence[Path]
) -> None:
    """/init, the programs in /bin, and the modules in /modules, named in their order."""
    with tempfile.TemporaryDirectory(prefix="sluice-initramfs-") as name:
        content = Path(name)
        for folder in ("bin", "dev", "modules"):
            (content / folder).mkdir()
        (content / "init").write_text(init)
        (content / "init").chmod(0o755)
        for program in programs:
            shutil.copy(program, content / "bin")
        for index, module in enumerate(modules):
            data = module.read_bytes()
            data = lzma.decompress(data) if module.suffix == ".xz" else data
            copy = f"{index:02d}-{module.name.split('.')[0]}.ko"
            (content / "modules" / copy).write_bytes(data)
        pack = "find . | busybox cpio -o -H newc 2>/dev/null"
        with open(image, "wb") as archive:
            subprocess.run(pack, shell=True, cwd=content, stdout=archive, check=True)


def ensure_initramfs(root: Root, disk: bool = False) -> Path:
    source = Path(__file__).read_bytes()
    key = digest(root.key, INIT.read_bytes(), source, "disk" if disk else "share")
    final = cache_dir() / "initramfs" / f"{root.kernel}-{key}"
    with cached(final) as work:
        if work:
            names = MODULES + DISK_MODULES * disk
            modules = needed_modules(root.path, root.release, names)
            programs = [root.path / "bin/busybox"]
            make_initramfs(work / "initramfs.cpio", INIT.read_text(), programs, modules)
    return final / "initramfs.cpio"
