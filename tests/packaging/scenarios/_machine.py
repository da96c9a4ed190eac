# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest as a machine of Debian's: apt without a network, its files, its
kernels."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.guest.devices import THERE
from lab.guest.scenarios import Env
from sluice import VERSION
from tests.kernel.scenarios._traffic import assert_flows, read_device, read_queue, send

PACKAGES = Path("/out/packages")
RELEASE = platform.release()
MODULES = Path("/lib/modules")
BUILD = MODULES / RELEASE / "build"  # the headers
DKMS = Path("/var/lib/dkms/sluice")
BROKEN = "broken-on-purpose.h"
STOCK = "devices behave as without sluice"  # in each complaint of packaging/module
# Not ours: what apt, dpkg and ldconfig keep, and DKMS's own key.
SPARED = re.compile(
    r"/(var/(lib/(dpkg|apt|dkms/mok\.)|cache|log|backups)|tmp|root/\.|run/)"
    r"|.*/__pycache__"
)
ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "INITRD": "No",  # the lab boots an initramfs of its own
    # What was compiled before the boot; only the compiler is spared.
    "DEBIAN_KERNEL_USE_CCACHE": "1",
    "CCACHE_DIR": "/tmp/ccache",
    "CCACHE_SLOPPINESS": "locale",  # DKMS's is another than the chroot's
    "CCACHE_NOINODECACHE": "1",  # it takes longer to make than to do without
}


@dataclass(frozen=True)
class Done:
    """A command, with all it said."""

    status: int
    said: str

    def lines(self, beginning: str) -> list[str]:
        return [line for line in self.said.splitlines() if line.startswith(beginning)]


def bring_ccache() -> None:
    """In the guest's memory: on the share each question takes ten seconds."""
    if not os.path.exists(ENVIRONMENT["CCACHE_DIR"]):
        shutil.copytree("/out/ccache", ENVIRONMENT["CCACHE_DIR"])


def run(*argv: str) -> Done:
    """A command without questions; the console keeps how long it took."""
    bring_ccache()
    environment = {**os.environ, **ENVIRONMENT}
    # The lab's own; with it the packages make no caches beside their files.
    environment.pop("PYTHONPYCACHEPREFIX", None)
    started = time.monotonic()
    done = subprocess.run(
        argv,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seconds = time.monotonic() - started
    print(f"{seconds:.0f} s: {' '.join(argv)}"[:100], file=sys.stderr, flush=True)
    return Done(done.returncode, done.stdout)


def has_command() -> bool:
    """Whether this Debian's libraries are new enough for the command."""
    version = run("dpkg-query", "-W", "-f", "${Version}", "python3-click").said
    return run("dpkg", "--compare-versions", version, "ge", "8.1.3").status == 0


def package(name: str) -> str:
    (path,) = PACKAGES.glob(f"{name}_*.deb")
    return str(path)


def names() -> tuple[str, ...]:
    """The packages this Debian can have."""
    return ("sluice-dkms", "sluice-tun") if has_command() else ("sluice-dkms",)


def apt(verb: str, *packages: str) -> Done:
    done = run("apt-get", verb, "-y", "--no-install-recommends", *packages)
    assert done.status == 0, done.said
    return done


def apt_install(env: Env) -> Done:
    """What apt said when it installed our packages, until the scenario's end."""
    env.defer(purge)
    done = apt("install", *(package(name) for name in names()))
    for name in names():
        state = run("dpkg-query", "-W", "-f", "${db:Status-Status}", name).said
        assert state == "installed", (name, state, done.said)
    return done


def purge(pattern: str = "sluice*") -> None:
    known = run("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", pattern)
    lines = known.said.splitlines() if known.status == 0 else []
    there = [line.split()[0] for line in lines if "not-installed" not in line]
    if there:
        apt("purge", *there)
        assert os.path.exists("/dev/net/tun"), "tun was taken along"


def read_files() -> set[str]:
    """Every path of the root file system that is not SPARED."""
    found = run("find", "/", "-xdev", "-path", "/usr/src/linux-*", "-prune",
                "-o", "-print")
    return {path for path in found.said.splitlines() if not SPARED.match(path)}


def assert_no_trace(before: set[str]) -> None:
    after = read_files()
    left, gone = after - before, before - after
    kept = run("find", *sorted(left)).said if left else ""
    assert not left and not gone, {"left": left, "gone": gone, "with": kept}
    assert not os.path.exists("/sys/module/sluice"), "the module is still loaded"


@contextlib.contextmanager
def pings() -> Iterator[None]:
    """A tunnel in use: not one ping may be lost, whatever is installed."""
    command = ["ping", "-i", "0.5", "-W", "5", THERE.address]
    ping = subprocess.Popen(command, stdout=subprocess.PIPE, universal_newlines=True)
    try:
        yield
    finally:
        ping.send_signal(2)  # it says what it counted
        said = ping.communicate()[0]
    answered = [int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", said)]
    # Up to the last that was answered: one may be under way at the end.
    assert sorted(answered) == list(range(1, len(answered) + 1)), said[-300:]
    assert answered, said


def newer_package(env: Env, version: str) -> str:
    """The module's package again, with a version above its own."""
    tree, path = Path("/tmp/newer"), f"/tmp/sluice-dkms_{version}.deb"
    env.run("dpkg-deb", "-R", package("sluice-dkms"), str(tree))
    source = tree / "usr/src" / f"sluice-{VERSION}"
    named = (tree / "DEBIAN/control", source / "dkms.conf", source / "main.c",
             tree / "usr/lib/sluice/module")
    for file in named:
        assert VERSION in file.read_text(), file
        file.write_text(file.read_text().replace(VERSION, version))
    source.rename(source.with_name(f"sluice-{version}"))
    env.run("dpkg-deb", "-b", str(tree), path)
    return path


@contextlib.contextmanager
def broken_headers() -> Iterator[None]:
    """Headers of this kernel that nothing can be compiled with."""
    (header,) = Path("/usr/src").glob("linux-headers-*-common/include/linux/module.h")
    text = header.read_text()
    # A file that is missing ends the compiler at once, an error does not.
    header.write_text(f"#include <{BROKEN}>\n{text}")
    try:
        yield
    finally:
        header.write_text(text)


def module_files(release: str = RELEASE) -> list[Path]:
    return sorted((MODULES / release).rglob("sluice.ko*"))


def assert_served(env: Env, reader) -> None:
    """The device of `sink` is served: its full ring stops the queue."""
    assert read_device().state == "served"
    stops = read_queue().stops
    reader.pause()
    send(300)
    assert read_queue().stops > stops
    reader.resume()
    assert_flows(env)


def assert_stock(env: Env, done: Done, *words: str) -> None:
    """One line of ours, with these words; no module; TUN works as it did."""
    complaints = [line for line in done.lines("sluice: ") if STOCK in line]
    assert len(complaints) == 1, done.said
    for word in (*words, "sluice doctor"):
        assert word in complaints[0], (word, complaints)
    assert not os.path.exists("/sys/module/sluice")
    assert_flows(env)
