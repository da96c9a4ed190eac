# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel built from its suite's linux-source, if no package has its configuration.

The files of lab/machines/configs are merged in their order; every option that they do
not name is off. Another configuration is one more file there, and a line in the matrix.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab.cache import digest, digest_files, fill_once
from lab.failure import LabError
from lab.machines.chroot import Root, must_run_in_root
from lab.machines.matrix import Kernel
from lab.machines.native import source as native

CONFIGS = Path(__file__).with_name("configs")
FILES = "files"  # what a build leaves, as it lies in a root

_CONFIGURE = """
mkdir linux
tar -xf /usr/src/linux-source-{release}.tar.xz -C linux --strip-components=1
make -s -C linux KCONFIG_ALLCONFIG=/mnt/wanted.config allnoconfig
cp linux/.config given.config
"""
_BUILD = """
cd linux
make -s -j{jobs} bzImage modules
release=$(make -s kernelrelease)
headers=/usr/src/linux-headers-$release
install -D arch/x86/boot/bzImage /mnt/files/boot/vmlinuz-$release
install -m 644 .config /mnt/files/boot/config-$release
make -s INSTALL_MOD_PATH=/mnt/files/usr modules_install
make -s run-command \\
    KBUILD_RUN_COMMAND="scripts/package/install-extmod-build /mnt/files$headers"
ln -sfn $headers /mnt/files/usr/lib/modules/$release/build
"""


def config_files(kernel: Kernel) -> list[Path]:
    return [CONFIGS / f"{name}.config" for name in kernel.configs]


def configs_key(kernel: Kernel) -> str:
    """Changes when the kernel would be built another way."""
    parts = [digest_files([path]) for path in config_files(kernel)]
    if kernel.native:
        return digest(*parts, native.key(kernel.debug))
    return digest(*parts, _CONFIGURE, _BUILD)


def parse_options(text: str) -> dict[str, str]:
    """The options of a configuration; the last value of each counts."""
    options = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name.startswith("CONFIG_"):
            options[name] = value
        elif line.startswith("# CONFIG_") and line.endswith(" is not set"):
            options[line.split()[1]] = "n"
    return options


def refused_options(wanted: dict[str, str], given: dict[str, str]) -> list[str]:
    """The options that Kconfig did not accept."""
    return [
        f"{name}={value}"
        for name, value in wanted.items()
        if given.get(name, "n") != value
    ]


def format_config(kernel: Kernel) -> str:
    """All files merged, and a release named after the last."""
    texts = [path.read_text() for path in config_files(kernel)]
    options = parse_options("\n".join(texts))
    options["CONFIG_LOCALVERSION"] = f'"-{kernel.configs[-1]}"'
    return "".join(f"{name}={value}\n" for name, value in options.items())


def _run(kernel: Kernel, builder: Root, work: Path, script: str) -> None:
    failure = f"kernel {kernel.name}: linux-source-{kernel.release} does not build"
    remedy = "correct lab/machines/configs, or the tools in lab/machines/matrix.py"
    exported = "export LLVM=1\n" if kernel.clang else ""
    must_run_in_root(builder, work, exported + script, failure, remedy)


def build_kernel(kernel: Kernel, builder: Root, work: Path) -> None:
    """The kernel, its modules and what modules are built with, in work/FILES.

    builder: a root with the kernel's source and the tools. What an interrupted build
    of the same kernel left in work is used: make goes on where it was.
    """
    config = format_config(kernel)
    (work / "wanted.config").write_text(config)
    if kernel.native:
        native.add(work, kernel.debug)
    configure, build = (
        (native.CONFIGURE, native.BUILD) if kernel.native else (_CONFIGURE, _BUILD)
    )
    script = configure.format(release=kernel.release)
    fill_once(work / "linux", lambda: _run(kernel, builder, work, script))
    if kernel.native:
        native.require_patched(work / "linux", work / "native")
    given = parse_options((work / "given.config").read_text())
    refused = refused_options(parse_options(config), given)
    if refused:
        raise LabError(
            f"kernel {kernel.name}: its configuration cannot have "
            f"{', '.join(refused)}; correct lab/machines/configs"
        )
    _run(kernel, builder, work, build.format(jobs=os.cpu_count() or 1))
