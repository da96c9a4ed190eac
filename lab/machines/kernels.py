# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel built from its suite's linux-source, if no package has its configuration.

The files of lab/machines/configs are merged in their order; every option that they do
not name is off. Another configuration is one more file there, and a line in the matrix.
A kernel of the user's own tree has his configuration, and tree.config on top.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from lab.cache import digest, digest_files
from lab.failure import LabError, UsageError
from lab.machines.chroot import Root, must_run_in_root
from lab.machines.matrix import Kernel
from lab.machines.native import source as native

CONFIGS = Path(__file__).with_name("configs")
_OPTION = re.compile(r"(?:# )?(CONFIG_\w+)[ =]")
FILES = "files"  # what a build leaves, as it lies in a root
TREE = "tree"  # the name of a user's own, in the lab's output and in configs/
# The compilers of Debian's suites, the oldest first.
COMPILERS = {
    "gcc": {"bullseye": 10, "bookworm": 12, "trixie": 14},
    "clang": {"bullseye": 11, "bookworm": 14, "trixie": 19},
}

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
# The same for a tree of the user's, which has been copied to linux/. Before 6.6 no kernel
# had a script that chooses what modules are built with.
_CONFIGURE_TREE = """
make -s -C linux mrproper
cat own.config wanted.config >linux/.config
make -s -C linux olddefconfig
cp linux/.config given.config
"""
_BUILD_TREE = """
cd linux
make -s -j{jobs} bzImage modules
release=$(make -s kernelrelease)
headers=usr/src/linux-headers-$release
files=/mnt/files
install -D arch/x86/boot/bzImage $files/boot/vmlinuz-$release
install -m 644 .config $files/boot/config-$release
make -s INSTALL_MOD_PATH=$files/usr INSTALL_MOD_STRIP=1 modules_install
mkdir -p $files/$headers/arch
cp -a .config Makefile Module.symvers include scripts $files/$headers
cp -a arch/x86 $files/$headers/arch
find $files/$headers/arch -type f \\( -name '*.[ao]' -o -size +1M \\) -delete
if [ -e tools/objtool/objtool ]; then
    install -D tools/objtool/objtool $files/$headers/tools/objtool/objtool
fi
rm -f $files/usr/lib/modules/$release/source
ln -sfn /$headers $files/usr/lib/modules/$release/build
"""


def configs_key(kernel: Kernel) -> str:
    """Changes when the kernel would be built another way."""
    parts = [digest_files([CONFIGS / f"{name}.config"]) for name in kernel.configs]
    built = [native.key(kernel.debug)] if kernel.native else [*_recipe(kernel)]
    return digest(*parts, *built)


def _recipe(kernel: Kernel) -> tuple[str, str]:
    """How it is configured and built."""
    if kernel.tree:
        return _CONFIGURE_TREE, _BUILD_TREE
    if kernel.native:
        return native.CONFIGURE, native.BUILD
    return _CONFIGURE, _BUILD


def wanted_options(kernel: Kernel) -> dict[str, str]:
    """The last line of each option; the release is named after the last file, if it is
    not the user's."""
    texts = [(CONFIGS / f"{name}.config").read_text() for name in kernel.configs]
    lines = "\n".join(texts).splitlines()
    if not kernel.tree:
        lines.append(f'CONFIG_LOCALVERSION="-{kernel.configs[-1]}"')
    found = [(_OPTION.match(line), line) for line in lines]
    return {option[1]: line for option, line in found if option}


def refused_options(wanted: dict[str, str], given: str) -> list[str]:
    """The lines of options that Kconfig did not accept; one that is off or empty may be
    absent."""
    lines = set(given.splitlines())
    return [
        line
        for name, line in wanted.items()
        if line not in lines
        and (not (line[0] == "#" or line.endswith('=""')) or f"{name}=" in given)
    ]


def _run(kernel: Kernel, builder: Root, work: Path, script: str) -> None:
    source = kernel.tree or f"linux-source-{kernel.release}"
    options = kernel.config or CONFIGS
    failure = f"kernel {kernel.name}: {source} does not build"
    remedy = f"correct {options}, or the tools in lab/machines/roots.py"
    exported = "export LLVM=1\n" if kernel.clang else ""
    must_run_in_root(builder, work, exported + script, failure, remedy)


def build_kernel(kernel: Kernel, builder: Root, work: Path) -> None:
    """The kernel, its modules and what modules are built with, in work/FILES.

    builder: a root with the kernel's source and the tools. What an interrupted build
    of the same kernel left in work is used: make goes on where it was.
    """
    wanted, (configure, build) = wanted_options(kernel), _recipe(kernel)
    (work / "wanted.config").write_text("".join(f"{one}\n" for one in wanted.values()))
    linux, given = work / "linux", work / "given.config"
    if not given.exists():  # which is the last that the script makes
        shutil.rmtree(linux, ignore_errors=True)
        if kernel.native:
            native.add(work, kernel.debug)
        if kernel.tree and kernel.config:
            shutil.copyfile(kernel.config, work / "own.config")
            ignored = shutil.ignore_patterns(".git")
            shutil.copytree(kernel.tree, linux, symlinks=True, ignore=ignored)
        _run(kernel, builder, work, configure.format(release=kernel.release))
    if kernel.native:
        native.require_patched(linux, work / "native")
    if refused := refused_options(wanted, given.read_text()):
        raise LabError(
            f"kernel {kernel.name}: its configuration cannot have "
            f"{', '.join(refused)}; correct {kernel.config or CONFIGS}"
        )
    _run(kernel, builder, work, build.format(jobs=os.cpu_count() or 1))
    shutil.rmtree(linux)


def choose_suite(config: str) -> tuple[str, bool]:
    """The first suite whose compiler is as new as the configuration's, or the last; and
    whether that is clang."""
    clang = "\nCONFIG_CC_IS_CLANG=y\n" in f"\n{config}"
    name = "clang" if clang else "gcc"
    found = re.search(rf"^CONFIG_{name.upper()}_VERSION=(\d+)$", config, re.MULTILINE)
    wanted = int(found[1]) // 10000 if found else 0
    suites = COMPILERS[name]
    fitting = [suite for suite in suites if 0 < wanted <= suites[suite]]
    return (fitting or [*suites][-1:])[0], clang


def _describe(tree: Path) -> str:
    """Changes when a file of the tree does."""
    lines = []
    for folder, folders, files in os.walk(tree):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(files):
            facts = os.lstat(os.path.join(folder, name))
            lines.append(f"{folder}/{name} {facts.st_size} {facts.st_mtime_ns}")
    return "\n".join(lines)


def kernel_of(tree: Path, config: Path | None) -> Kernel:
    """config: if it is not the tree's own .config."""
    tree = tree.absolute()
    config = (config or tree / ".config").absolute()
    if not (tree / "Kconfig").is_file():
        raise UsageError(f"{tree}: no source tree of a kernel; it has no Kconfig")
    if not config.is_file():
        raise UsageError(f"{config}: not there; name the configuration with --config")
    text = config.read_text()
    suite, clang = choose_suite(text)
    return Kernel(
        name=TREE,
        suite=suite,
        extra_suites=(),
        release=tree.name,
        often=False,
        configs=("guest", "qemu", TREE),
        clang=clang,
        tree=tree,
        config=config,
        version=digest(_describe(tree), text),
    )
