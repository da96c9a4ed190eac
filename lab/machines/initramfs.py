# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's own initramfs: busybox, a few modules and lab/guest/init."""

from __future__ import annotations

import lzma
from pathlib import Path

from lab.cache import cache_dir, cached, digest
from lab.failure import LabError
from lab.machines.chroot import Root

# What the root's file systems and a shell's terminal need, where the kernel
# has not built it in; modules.dep supplies the rest.
MODULES = ("virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay")
# The root on a disk; ext4 asks the kernel for crc32c by its name.
DISK_MODULES = ("virtio_blk", "crc32c_generic", "ext4")
INIT = Path(__file__).resolve().parents[1] / "guest" / "init"

_DIRECTORY, _FILE, _CHARACTER = 0o040755, 0o100755, 0o020600


def format_entry(name: str, mode: int, data: bytes = b"", device=(0, 0)) -> bytes:
    """One entry of a cpio archive in the newc format."""
    encoded = name.encode() + b"\0"
    fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0]
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _padded(header + encoded) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def format_archive(files: list[tuple[str, bytes]]) -> bytes:
    """A cpio archive of directories, /dev/console and these files."""
    entries = [
        format_entry(name, _DIRECTORY) for name in ("bin", "dev", "modules")
    ]
    entries.append(format_entry("dev/console", _CHARACTER, device=(5, 1)))
    entries += [format_entry(name, _FILE, data) for name, data in files]
    entries.append(format_entry("TRAILER!!!", 0))
    return b"".join(entries)


def parse_load_order(modules_dep: str, wanted: tuple[str, ...]) -> list[str]:
    """The files to insert, in order, from the text of modules.dep."""
    needs: dict[str, list[str]] = {}
    for line in modules_dep.splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    by_name = {Path(path).name.split(".")[0]: path for path in needs}
    order: list[str] = []
    for name in wanted:
        found = by_name.get(name)
        # modules.dep lists the deepest need last.
        chain = [*reversed(needs[found]), found] if found else []
        order += [step for step in chain if step not in order]
    return order


def read_module(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".ko":
        return data
    raise LabError(
        f"{path.name}: packed in a way the lab cannot read; "
        "add it to lab/machines/initramfs.py"
    )


def module_files(modules: Path, wanted: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """These modules of a kernel and their needs, named in the order to insert them.

    modules: the kernel's folder below /lib/modules.
    """
    order = parse_load_order((modules / "modules.dep").read_text(), wanted)
    return [
        (
            f"modules/{index:02d}-{Path(path).name.split('.')[0]}.ko",
            read_module(modules / path),
        )
        for index, path in enumerate(order)
    ]


def ensure_initramfs(root: Root, disk: bool = False) -> Path:
    """The initramfs for this root: from the cache, or made now."""
    source = Path(__file__).read_bytes()
    key = digest(root.key, INIT.read_bytes(), source, "disk" if disk else "share")
    final = cache_dir() / "initramfs" / f"{root.kernel}-{key}"
    with cached(final, f"initramfs-{root.kernel}") as work:
        if work:
            busybox = (root.path / "bin/busybox").read_bytes()
            files = [("init", INIT.read_bytes()), ("bin/busybox", busybox)]
            files += module_files(root.modules, MODULES + DISK_MODULES * disk)
            (work / "initramfs.cpio").write_bytes(format_archive(files))
    return final / "initramfs.cpio"
