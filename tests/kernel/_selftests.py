# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own selftests for tun and tap, built from its source."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.cache import cache_dir, cached, digest
from lab.machines import build
from lab.machines.chroot import Root, must_run_in_root
from lab.machines.matrix import NEWEST, Kernel
from lab.machines.suites import find_kernel
from lab.setup import say

TESTS = ("tun", "tap")
KERNELS = ("6.12", NEWEST)  # whose suites have the source
# Some of them speak netlink by code that is made from the kernel's specs.
_TOOLS = ("python3-jsonschema", "python3-yaml", "xz-utils")
_PARTS = ("Documentation/netlink", "arch/x86", "include", "scripts", "tools", "usr")
# Their generator takes the folder with MAINTAINERS for the whole source.
_FILES = ("Kbuild", "Kconfig", "MAINTAINERS", "Makefile")
_BUILD = """
mkdir linux built
tar -xf /usr/src/linux-source-{kernel}.tar.xz -C linux --strip-components=1 \\
    --wildcards {parts}
cd linux
make -s headers
make -s -C tools/testing/selftests/net OUTPUT=/mnt/built \\
    KHDR_INCLUDES='-isystem /mnt/linux/usr/include' {tests}
ls {tests}
"""


def packages(kernel: Kernel) -> tuple[str, ...]:
    """What a root has besides the lab's own, to build them in."""
    return (f"linux-source-{find_kernel(kernel).name}", *_TOOLS)


def _ensure_selftests(root: Root) -> Path:
    """The directory of TESTS: from the cache, or built now."""
    wanted = [*(f"{part}/*" for part in _PARTS), *_FILES]
    parts = " ".join(f"'linux-source-{root.kernel}/{one}'" for one in wanted)
    tests = " ".join(f"/mnt/built/{test}" for test in TESTS)
    script = _BUILD.format(kernel=root.kernel, parts=parts, tests=tests)
    final = cache_dir() / "selftests" / f"{root.kernel}-{digest(root.key, script)}"
    with cached(final, f"selftests-{root.kernel}") as work:
        if work:
            say(f"kernel {root.kernel}: building its selftests (1-3 minutes)")
            failure = f"kernel {root.kernel}: its selftests do not build"
            remedy = "correct tests/kernel/_selftests.py"
            must_run_in_root(root, work, script, failure, remedy)
            shutil.rmtree(work / "linux")
    return final / "built"


def stage(root: Root, output: Path) -> None:
    """What the guest needs, with the selftests in /out/selftests."""
    build.stage(root, output)
    (output / "selftests").mkdir()
    built = _ensure_selftests(root)
    for test in TESTS:
        shutil.copy(built / test, output / "selftests")
