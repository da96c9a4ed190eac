# SPDX-License-Identifier: GPL-2.0-or-later
"""Root filesystems: one per kernel, from the distribution's own packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from lab import processes
from lab.cache import cache_dir, cached, digest
from lab.machines.chroot import Root, must_run_in_root
from lab.machines.kernels import FILES, build_kernel, configs_key
from lab.machines.matrix import HOST, Kernel
from lab.machines.native import source as native
from lab.machines.suites import find_kernel, read_mirror, sources, version_order
from lab.setup import ensure_tools, say

# What the guest needs besides the kernel, and what the builds need.
GUEST_PACKAGES = (
    *("busybox-static", "iperf3", "iproute2", "iputils-ping", "kmod"),
    *("python3", "python3-click", "python3-pyroute2", "python3-rich"),
)
TOOLS = ("gcc", "libc6-dev", "make", "sparse")
PACKAGES = tuple(sorted((*GUEST_PACKAGES, *TOOLS)))
# What each root of Debian's has, for those that are only unpacked.
BASE_PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "libc-bin", "mount", "ncurses-base"),
    *("procps", "util-linux"),
)
# What a kernel is built with, from its source.
BUILDER_PACKAGES = (
    *("bc", "bison", "flex", "gcc", "kmod", "libc6-dev", "libelf-dev", "make", "perl"),
    "xz-utils",
)
# What configurations of distributions ask for besides.
TREE_PACKAGES = (
    *("cpio", "dwarves", "libssl-dev", "lz4", "openssl", "python3", "rsync", "zstd"),
)
# What kernel patches are made and checked with.
SERIES_PACKAGES = (
    *BUILDER_PACKAGES,
    *("coccinelle", "git", "python3-git", "python3-ply", "sparse"),
)
# In place of gcc, for a kernel built with clang and its modules.
CLANG_PACKAGES = ("clang", "lld", "llvm")
DISK_SIZE = "4G"  # sparse: what the root takes, and no more
MAKE_DISK = ("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0")
# Left out of every package.
EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")


def bootstrap(what: str, arguments: list[str], tree: Path, sources: list[str]) -> None:
    """Make a tree of packages; mmdebstrap's arguments, but for what is named besides."""
    processes.must_run(
        ["mmdebstrap", *arguments, str(tree), *sources],
        f"{what}: mmdebstrap could not make its root",  # apt has tried three times
        "check the network and apt's sources, then run again",
        env={**os.environ, "INITRD": "No"},  # the lab boots one of its own
    )


_UNPACK = ("--variant=extract", "--quiet", '--aptopt=Acquire::Retries "3"')


def unpack(what: str, suite: str, packages: tuple[str, ...], tree: Path) -> None:
    """Packages' files in a directory, with no script of theirs run."""
    ensure_tools()
    # A mirror that lags may hold an index that is past its date.
    arguments = [*_UNPACK, '--aptopt=Acquire::Check-Valid-Until "false"']
    arguments += [f"--include={','.join(packages)}", suite]
    bootstrap(what, arguments, tree, [f"deb {read_mirror()} {suite} main"])


def recipe(kernel: Kernel, extra: tuple[str, ...] = ()) -> list[str]:
    """mmdebstrap's arguments, but for the mirror and the target.

    extra: packages only some jobs need; they make a root of its own.
    """
    if kernel.arch is not HOST:
        packages = (*kernel.packages, *BASE_PACKAGES, *GUEST_PACKAGES, *extra)
        arguments = [f"--architectures={kernel.arch.name}", *_UNPACK]
        return [*arguments, *(f"--include={name}" for name in packages), kernel.suite]
    tools = (*PACKAGES, *CLANG_PACKAGES * kernel.clang, *extra)
    return recipe_of(kernel, (*kernel.pins, *kernel.packages), tools)


def workshop_recipe(kernel: Kernel) -> list[str]:
    """The same for the root in which the module is built, if not in that one."""
    tools = (*TOOLS, "kmod", "python3", *kernel.arch.compiler_packages)
    return recipe_of(kernel, (f"linux-headers-{HOST.name}",), tools)


def builder_recipe(kernel: Kernel) -> list[str]:
    """The same for a root in which the kernel is built from its source."""
    tools = (*BUILDER_PACKAGES, *CLANG_PACKAGES * kernel.clang)
    tools += native.PACKAGES * kernel.native
    tools += ("python3",) * kernel.clang  # which ThinLTO's link runs
    if kernel.tree:
        return recipe_of(kernel, (), tools + TREE_PACKAGES)
    return recipe_of(kernel, (f"linux-source-{kernel.release}",), tools)


def recipe_of(
    kernel: Kernel, of_kernel: tuple[str, ...], tools: tuple[str, ...]
) -> list[str]:
    arguments = ["--variant=apt", "--quiet", '--aptopt=Acquire::Retries "3"']
    arguments += [f"--dpkgopt=path-exclude={path}" for path in EXCLUDED]
    arguments += [f"--include={pattern}" for pattern in of_kernel]
    arguments += ["--include=" + ",".join(tools), kernel.suite]
    return arguments


def _made_of(kernel: Kernel, recipe: list[str], *more: str) -> str:
    """Changes with the recipe, or when the mirror has a newer package."""
    return json.dumps([recipe, kernel.extra_suites, kernel.version, *more])


def root_key(kernel: Kernel, extra: tuple[str, ...] = ()) -> str:
    """Changes when the root would be another."""
    key = digest(_made_of(kernel, recipe(kernel, extra)))
    if kernel.arch is not HOST:
        key = digest(key, json.dumps(workshop_recipe(kernel)), _FINISH)
    return digest(key, kernel_key(kernel)) if kernel.configs else key


def kernel_key(kernel: Kernel) -> str:
    """Changes when a kernel that is built would be another."""
    return digest(_made_of(kernel, builder_recipe(kernel)), configs_key(kernel))


def read_release(tree: Path) -> str:
    """The newest kernel in a tree, as uname -r spells it."""
    releases = (path.name for path in (tree / "lib/modules").iterdir())
    return max(releases, key=lambda name: version_order(name.split("+")[0]))


def read_package(tree: Path, name: str) -> str:
    command = ["dpkg-query", f"--admindir={tree}/var/lib/dpkg"]
    command += ["-W", "-f", "${Package} ${Version}", name]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or name


# A root that was only unpacked lacks what packages' own scripts make; the compiler
# that runs here needs the kernel's headers beside it.
_FINISH = """
mkdir -p tree/mnt tree/proc tree/sys tree/tmp
rm -rf tree/var/run; ln -s /run tree/var/run
depmod -b /mnt/tree {release}
python3 -m compileall -q -s /mnt/tree tree/usr/lib/python3 tree/usr/lib/python3.*
cp -r tree/usr/src/linux-headers-{release} /usr/src/
mkdir -p /usr/lib/modules/{release}
ln -sfn /usr/src/linux-headers-{release} /usr/lib/modules/{release}/build
"""


def _bootstrap_for(kernel: Kernel, recipe: list[str], tree: Path) -> None:
    bootstrap(f"kernel {kernel.name}", recipe, tree, sources(kernel, read_mirror()))


def _ensure_built(kernel: Kernel) -> Path:
    """A kernel no package has: from the cache, or built now."""
    final = cache_dir() / "kernels" / f"{kernel.name}-{kernel_key(kernel)}"
    with cached(final, resumed=True) as work:
        if work:
            say(f"kernel {kernel.name}: building it from source (10-30 minutes)")
            # The tools for a user's tree are the same whatever changes in it.
            tools = replace(kernel, version="") if kernel.tree else kernel
            place, recipe = f"builders/{kernel.name}/root", builder_recipe(kernel)
            builder = ensure_made(tools, place, f"tools for {kernel.name}", recipe)
            package = f"{kernel.release} {kernel.version}"
            if not kernel.tree:
                package = read_package(builder.path, f"linux-source-{kernel.release}")
            (work / "package").write_text(package)
            build_kernel(kernel, builder, work)
            shutil.rmtree(cache_dir() / "builders" / kernel.name)
    return final


def _build_root(kernel: Kernel, extra: tuple[str, ...], work: Path) -> None:
    built = _ensure_built(kernel) if kernel.configs else None
    packages = f" with {', '.join(extra)}" if extra else ""
    say(f"kernel {kernel.name}: building its root{packages} from packages (1-2 minutes)")
    tree = work / "tree"
    _bootstrap_for(kernel, recipe(kernel, extra), tree)
    if built:
        shutil.copytree(built / FILES, tree, symlinks=True, dirs_exist_ok=True)
    release = read_release(tree)
    if kernel.arch is not HOST:  # a root of this machine builds its module
        workshop = work / "workshop"
        _bootstrap_for(kernel, workshop_recipe(kernel), workshop)
        root = Root(kernel.name, tree, workshop=workshop)
        failure = f"kernel {kernel.name}: the root that builds for it is incomplete"
        script = _FINISH.format(release=release)
        must_run_in_root(root, work, script, failure, "correct lab/machines/roots.py")
    package = read_package(tree, f"linux-image-{release}")
    if built:
        package = (built / "package").read_text()
    facts = {"release": release, "package": package}
    (work / "root.json").write_text(json.dumps(facts))


def has_root(kernel: Kernel) -> bool:
    """Whether its root is in the cache, so that nothing has to be built."""
    kernel = find_kernel(kernel)
    return (cache_dir() / "roots" / f"{kernel.name}-{root_key(kernel)}").exists()


def ensure_made(
    kernel: Kernel, place: str, what: str, recipe: list[str], finish: str = ""
) -> Root:
    """A root that boots nothing: from the cache (place), or made now.

    finish: a script that is then run in it, in an empty folder.
    """
    ensure_tools()
    key = digest(_made_of(kernel, recipe, *filter(None, [finish])))
    final = cache_dir() / f"{place}-{key}"
    with cached(final) as work:
        if work:
            say(f"{what}: building their root (2 minutes)")
            _bootstrap_for(kernel, recipe, work / "tree")
            (work / "empty").mkdir()
            unfinished = Root(kernel.name, work / "tree")
            failure = f"{what}: their root cannot be completed"
            remedy = "check the network"
            must_run_in_root(unfinished, work / "empty", finish, failure, remedy)
    return Root(kernel.name, final / "tree", key=key)


def ensure_source_root(kernel: Kernel) -> Root:
    """A root with this kernel's source, in which patches to it are made."""
    source = f"linux-source-{kernel.release}"
    recipe = recipe_of(kernel, (source,), SERIES_PACKAGES)
    return ensure_made(kernel, f"roots/source-{kernel.release}", source, recipe)


def ensure_root(kernel: Kernel, extra: tuple[str, ...] = ()) -> Root:
    ensure_tools()
    kernel = find_kernel(kernel)
    key = root_key(kernel, extra)
    final = cache_dir() / "roots" / f"{kernel.name}-{key}"
    with cached(final) as work:
        if work:
            _build_root(kernel, extra, work)
    facts = json.loads((final / "root.json").read_text())
    return Root(
        kernel=kernel.name,
        path=final / "tree",
        release=facts["release"],
        package=facts["package"],
        key=key,
        arch=kernel.arch,
        make=native.MODULE_MAKE if kernel.native else "LLVM=1" * kernel.clang,
        native=kernel.native,
        workshop=None if kernel.arch is HOST else final / "workshop",
    )


def ensure_disk(root: Root) -> Path:
    """A root as a disk image, for jobs that ask for many small files, as apt, dkms and
    make do: on the 9p share each name asks the host."""
    key = digest(root.key, *MAKE_DISK, DISK_SIZE)
    final = cache_dir() / "disks" / f"{root.kernel}-{key}"
    with cached(final) as work:
        if work:
            say(f"kernel {root.kernel}: copying its root to a disk image (seconds)")
            make_disk(root, work / "root.ext4")
    return final / "root.ext4"


def make_empty_disk(image: Path) -> None:
    """For what a guest changes; a boot after its end finds it again."""
    _make_fs("mke2fs", "-q", "-t", "ext4", str(image), DISK_SIZE)


def make_disk(root: Root, image: Path) -> None:
    """The image, with the files' extended attributes."""
    _make_fs(*MAKE_DISK, "-d", str(root.path), str(image), DISK_SIZE)


def _make_fs(*command: str) -> None:
    processes.must_run(command, f"{' '.join(command)}: fails", "is the disk full?")
