# SPDX-License-Identifier: GPL-2.0-or-later
"""Root filesystems: one per kernel, from the distribution's own packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from lab import processes
from lab.cache import cache_dir, cached, digest, discard, fill_once
from lab.failure import LabError
from lab.machines.arch import HOST
from lab.machines.chroot import Root, last_line, must_run_in_root
from lab.machines.kernels import FILES, build_kernel, configs_key
from lab.machines.matrix import Kernel
from lab.machines.native import source as native
from lab.machines.suites import find_kernel, read_mirror, sources, version_order
from lab.setup import ensure_tools, say

# What the guest needs besides the kernel, and what the builds need.
GUEST_PACKAGES = (
    "busybox-static",
    "iperf3",
    "iproute2",
    "iputils-ping",
    "kmod",
    "python3",
    "python3-click",
    "python3-pyroute2",
    "python3-rich",
)
TOOLS = ("gcc", "libc6-dev", "make", "sparse")
PACKAGES = tuple(sorted((*GUEST_PACKAGES, *TOOLS)))
# What each root of Debian's has, for those that are only unpacked.
BASE_PACKAGES = (
    "base-files",
    "bash",
    "coreutils",
    "dash",
    "libc-bin",
    "mount",
    "ncurses-base",
    "procps",
    "util-linux",
)
# What a kernel is built with, from its source.
BUILDER_PACKAGES = (
    "bc",
    "bison",
    "flex",
    "gcc",
    "kmod",
    "libc6-dev",
    "libelf-dev",
    "make",
    "perl",
    "xz-utils",
)
# What kernel patches are made and checked with.
SERIES_PACKAGES = (
    *BUILDER_PACKAGES,
    "coccinelle",
    "git",
    "python3-git",
    "python3-ply",
    "sparse",
)
# In place of gcc, for a kernel built with clang and its modules.
CLANG_PACKAGES = ("clang", "lld", "llvm")
# Left out of every package.
EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
ATTEMPTS = 3


def _mmdebstrap(arguments: list[str], tree: Path) -> str | None:
    """None, or the last line it printed before it failed."""
    log = tree.with_name("mmdebstrap.log")
    # INITRD=No: the lab boots an initramfs of its own.
    with open(log, "w") as output:
        done = processes.run(
            ["mmdebstrap", *arguments],
            env={**os.environ, "INITRD": "No"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return None if done.returncode == 0 else last_line(log.read_text())


_UNPACK = ("--variant=extract", "--quiet", '--aptopt=Acquire::Retries "3"')


def unpack(what: str, suite: str, packages: tuple[str, ...], tree: Path) -> None:
    """Packages' files in a directory, with no script of theirs run."""
    arguments = list(_UNPACK)
    # A mirror that lags may hold an index that is past its date.
    arguments += ['--aptopt=Acquire::Check-Valid-Until "false"']
    arguments += [f"--include={','.join(packages)}", suite, str(tree)]
    arguments += [f"deb {read_mirror()} {suite} main"]
    last = _mmdebstrap(arguments, tree)
    if last is not None:
        raise LabError(
            f"{what}: mmdebstrap could not unpack it ({last}); "
            "check the network and apt's sources, then run again"
        )


def recipe(kernel: Kernel, extra: tuple[str, ...] = ()) -> list[str]:
    """mmdebstrap's arguments, but for the mirror and the target.

    extra: packages only some jobs need; they make a root of its own.
    """
    if kernel.arch is not HOST:
        packages = (*kernel.packages, *BASE_PACKAGES, *GUEST_PACKAGES, *extra)
        arguments = [f"--architectures={kernel.arch.name}", *_UNPACK]
        return [*arguments, *(f"--include={name}" for name in packages), kernel.suite]
    tools = (*PACKAGES, *_compiler_packages(kernel), *extra)
    return recipe_of(kernel, (*kernel.pins, *kernel.packages), tools)


def _make_flags(kernel: Kernel) -> str:
    """The variables that make gets besides the architecture."""
    if kernel.native:
        return native.MODULE_MAKE
    return "LLVM=1" if kernel.clang else ""


def _compiler_packages(kernel: Kernel) -> tuple[str, ...]:
    return CLANG_PACKAGES if kernel.clang else ()


def workshop_recipe(kernel: Kernel) -> list[str]:
    """The same for the root in which the module is built, if not in that one."""
    tools = (*TOOLS, "kmod", "python3", *kernel.arch.compiler_packages)
    return recipe_of(kernel, (f"linux-headers-{HOST.name}",), tools)


def builder_recipe(kernel: Kernel) -> list[str]:
    """The same for a root in which the kernel is built from its source."""
    tools = (*BUILDER_PACKAGES, *_compiler_packages(kernel))
    tools += native.PACKAGES if kernel.native else ()
    tools += ("python3",) if kernel.clang else ()  # which ThinLTO's link runs
    return recipe_of(kernel, (f"linux-source-{kernel.release}",), tools)


def recipe_of(kernel: Kernel, of_kernel: tuple[str, ...], tools: tuple[str, ...]):
    arguments = ["--variant=apt", "--quiet", '--aptopt=Acquire::Retries "3"']
    arguments += [f"--dpkgopt=path-exclude={path}" for path in EXCLUDED]
    arguments += [f"--include={pattern}" for pattern in of_kernel]
    arguments += ["--include=" + ",".join(tools), kernel.suite]
    return arguments


def root_key(kernel: Kernel, extra: tuple[str, ...] = ()) -> str:
    """Changes with the recipe of the root, or when the mirror has a newer package."""
    made_of = [recipe(kernel, extra), kernel.extra_suites, kernel.version]
    key = digest(json.dumps(made_of))
    if kernel.arch is not HOST:
        key = digest(key, json.dumps(workshop_recipe(kernel)), _FINISH)
    return digest(key, kernel_key(kernel)) if kernel.configs else key


def kernel_key(kernel: Kernel) -> str:
    """Changes when a kernel that is built would be another."""
    made_of = [builder_recipe(kernel), kernel.extra_suites, kernel.version]
    source = json.dumps(made_of)
    return digest(source, configs_key(kernel))


def read_release(tree: Path) -> str:
    """The newest kernel in a tree, as uname -r spells it."""
    releases = [path.name for path in (tree / "lib/modules").iterdir()]
    if not releases:
        raise LabError(f"{tree}: holds no kernel; remove it and run again")
    return max(releases, key=lambda name: version_order(name.split("+")[0]))


def read_package(tree: Path, name: str) -> str:
    """The package and its version."""
    command = ["dpkg-query", f"--admindir={tree}/var/lib/dpkg"]
    command += ["-W", "-f", "${Package} ${Version}", name]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or name


def bootstrap(kernel: Kernel, arguments: list[str], tree: Path) -> None:
    arguments = [*arguments, str(tree), *sources(kernel, read_mirror())]
    for attempt in range(1, ATTEMPTS + 1):
        last = _mmdebstrap(arguments, tree)
        if last is None:
            return
        say(f"kernel {kernel.name}: attempt {attempt} of {ATTEMPTS}: {last}")
        shutil.rmtree(tree, ignore_errors=True)
    raise LabError(
        f"kernel {kernel.name}: mmdebstrap could not build its root ({last}); "
        "check the network and apt's sources, then run again"
    )


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


def _add_workshop(kernel: Kernel, work: Path) -> None:
    """For another architecture: a root of this machine that builds its module."""
    workshop = work / "workshop"
    bootstrap(kernel, workshop_recipe(kernel), workshop)
    release = read_release(work / "tree")
    root = Root(
        kernel.name, work / "tree", release, "", "", kernel.arch, workshop=workshop
    )
    script = _FINISH.format(release=release)
    failure = f"kernel {kernel.name}: the root that builds for it is incomplete"
    must_run_in_root(root, work, script, failure, "correct lab/machines/roots.py")


def _ensure_built(kernel: Kernel) -> Path:
    """A kernel no package has: from the cache, or built now."""
    final = cache_dir() / "kernels" / f"{kernel.name}-{kernel_key(kernel)}"
    with cached(final, f"kernel-{kernel.name}", resumed=True) as work:
        if work:
            started = time.monotonic()
            say(f"kernel {kernel.name}: building it from source (10-30 minutes)")
            tree = work / "tree"
            fill_once(tree, lambda: bootstrap(kernel, builder_recipe(kernel), tree))
            package = read_package(tree, f"linux-source-{kernel.release}")
            (work / "package").write_text(package)
            build_kernel(kernel, Root(kernel.name, tree, "", package, ""), work)
            for path in (tree, work / "linux"):
                discard(path)
            seconds = time.monotonic() - started
            say(f"kernel {kernel.name}: built after {seconds:.0f} s")
    return final


def _build_root(kernel: Kernel, extra: tuple[str, ...], unfinished: Path) -> None:
    built = _ensure_built(kernel) if kernel.configs else None
    started = time.monotonic()
    told = f" with {', '.join(extra)}" if extra else ""
    say(f"kernel {kernel.name}: building its root{told} from packages (1-2 minutes)")
    tree = unfinished / "tree"
    bootstrap(kernel, recipe(kernel, extra), tree)
    if built:
        shutil.copytree(built / FILES, tree, symlinks=True, dirs_exist_ok=True)
    if kernel.arch is not HOST:
        _add_workshop(kernel, unfinished)
    release = read_release(tree)
    package = read_package(tree, f"linux-image-{release}")
    if built:
        package = (built / "package").read_text()
    facts = {"release": release, "package": package}
    (unfinished / "root.json").write_text(json.dumps(facts))
    seconds = time.monotonic() - started
    say(f"kernel {kernel.name}: root complete after {seconds:.0f} s")


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
    made_of = [recipe, kernel.extra_suites, kernel.version, *filter(None, [finish])]
    key = digest(json.dumps(made_of))
    final = cache_dir() / f"{place}-{key}"
    with cached(final, place.rpartition("/")[2]) as work:
        if work:
            say(f"{what}: building its root (2 minutes)")
            tree = work / "tree"
            bootstrap(kernel, recipe, tree)
            (work / "empty").mkdir()
            failure = f"{what}: its root cannot be completed"
            root = Root(kernel.name, tree, "", "", key)
            must_run_in_root(root, work / "empty", finish, failure, "check the network")
            shutil.rmtree(work / "empty")
    return Root(kernel.name, final / "tree", "", "", key)


def ensure_source_root(kernel: Kernel) -> Root:
    """A root with this kernel's source, in which patches to it are made."""
    source = f"linux-source-{kernel.release}"
    recipe = recipe_of(kernel, (source,), SERIES_PACKAGES)
    return ensure_made(kernel, f"roots/source-{kernel.release}", source, recipe)


def ensure_root(kernel: Kernel, extra: tuple[str, ...] = ()) -> Root:
    """The root of this kernel: from the cache, or built now."""
    ensure_tools()
    kernel = find_kernel(kernel)
    key = root_key(kernel, extra)
    final = cache_dir() / "roots" / f"{kernel.name}-{key}"
    with cached(final, f"root-{kernel.name}") as unfinished:
        if unfinished:
            _build_root(kernel, extra, unfinished)
    facts = json.loads((final / "root.json").read_text())
    return Root(
        kernel=kernel.name,
        path=final / "tree",
        release=facts["release"],
        package=facts["package"],
        key=key,
        arch=kernel.arch,
        make=_make_flags(kernel),
        native=kernel.native,
        workshop=None if kernel.arch is HOST else final / "workshop",
    )
