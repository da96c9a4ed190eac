# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU: the same on every machine, from the packages of one suite.

Before 8.1 (commit deba78709ae8) a kernel that patches its text under traffic could run
into the same breakpoint for ever. 10.0.13, that of trixie, mistakes one device's
registers for another's while a kernel moves its devices: 7 of 38 boots came to nothing.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from lab.cache import cache_dir, cached, digest
from lab.machines.matrix import Arch
from lab.machines.roots import unpack
from lab.setup import say

SUITE = "forky"  # the first with a QEMU of 11.1

LIBRARIES = "usr/lib/x86_64-linux-gnu"
DATA = ("usr/share/qemu", "usr/share/seabios")


def format_starter(tree: Path, name: str) -> str:
    """A script that starts the QEMU in a tree of unpacked packages."""
    libraries = tree / LIBRARIES
    command = [str(libraries / "ld-linux-x86-64.so.2")]
    command += ["--library-path", str(libraries), str(tree / "usr/bin" / name)]
    for folder in DATA:
        command += ["-L", str(tree / folder)]
    return (
        "#!/bin/sh\n"
        f"export QEMU_MODULE_DIR={shlex.quote(str(libraries / 'qemu'))}\n"
        f'exec {shlex.join(command)} "$@"\n'
    )


def ensure_qemu(arch: Arch) -> Path:
    key = digest(SUITE, arch.emulator_package, format_starter(Path(), arch.emulator))
    final = cache_dir() / "emulator" / key
    with cached(final) as work:
        if work:
            say(f"QEMU for {arch.name}: unpacking that of {SUITE} (less than a minute)")
            unpack("QEMU", SUITE, (arch.emulator_package,), work / "tree")
            shutil.rmtree(work / "tree/dev", ignore_errors=True)
            starter = work / arch.emulator
            starter.write_text(format_starter(final / "tree", arch.emulator))
            starter.chmod(0o755)
    return final / arch.emulator
