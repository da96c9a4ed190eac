# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernels the mirror's suites have, as apt lists them; kept for a day."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from lab.cache import cache_dir, digest, locked, require_space
from lab.failure import LabError, Unsuitable, UsageError
from lab.machines.matrix import BUILTIN, NEWEST, Kernel
from lab.setup import say

MAX_AGE_SECONDS = 86400.0
_IMAGE = re.compile(r"linux-image-(?P<release>(?P<version>\d+\.\d+\.\d+)\+deb\d+-\w+)")
_SOURCE = re.compile(r"linux-source-(?P<version>\d+\.\d+)")

Listing = dict[str, str]  # package -> its newest version


def read_mirror() -> str:
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    with contextlib.suppress(OSError):  # no apt
        done = subprocess.run(command, capture_output=True, text=True)
        for line in done.stdout.split():
            if line.endswith("/debian/"):
                return line
    raise Unsuitable(
        "apt: none of this machine's repositories is a Debian mirror "
        "(an address ending in /debian/); use a Debian machine"
    )


def sources(kernel: Kernel, mirror: str) -> list[str]:
    suites = (kernel.suite, *kernel.extra_suites)
    return [f"deb {mirror} {suite} main" for suite in suites]


def version_order(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _fetch(kernel: Kernel, state: Path) -> Listing:
    """By an apt with sources and lists of its own, that the machine's apt never sees;
    empty if it cannot read each of the suites."""
    options = {
        "Dir::State::lists": state / "lists",
        "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::status": "/dev/null",
        "APT::Architecture": kernel.arch.name,
        "Acquire::Languages": "none",
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Retries": 3,
    }
    own = [f"-o{name}={value}" for name, value in options.items()]

    def apt(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([command, *own, *arguments], capture_output=True, text=True)

    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    require_space(state)
    (state / "sources.list").write_text("\n".join(sources(kernel, read_mirror())))
    if apt("apt-get", "-qq", "--error-on=any", "update").returncode:
        return {}
    names = apt("apt-cache", "pkgnames", "linux-").stdout.split()
    found: Listing = {}
    for line in apt("apt-cache", "madison", *names).stdout.splitlines():
        name, version, _ = line.split("|")
        found.setdefault(name.strip(), version.strip())  # the newest comes first
    return found


def read_listing(kernel: Kernel) -> Listing:
    """The kernel packages of its suites, not older than a day if apt can tell."""
    suites = (kernel.suite, *kernel.extra_suites)
    key = digest(json.dumps([suites, kernel.arch.name]))
    state = cache_dir() / "suites" / key
    kept = state / "kernels.json"
    with locked(f"suites-{key}"):
        if not kept.exists() or time.time() - kept.stat().st_mtime > MAX_AGE_SECONDS:
            if found := _fetch(kernel, state):
                kept.write_text(json.dumps(found))
            elif kept.exists():
                say(f"apt cannot read {', '.join(suites)}; using the older list")
            else:
                raise LabError(
                    f"kernel {kernel.name}: apt cannot read {', '.join(suites)}; "
                    "check the network and apt's sources, then run again"
                )
        listing: Listing = json.loads(kept.read_text())
        return listing


def known_series(listing: Listing) -> list[str]:
    return sorted({m["version"] for m in map(_SOURCE.fullmatch, listing) if m})


def choose_newest(kernel: Kernel, listing: Listing) -> Kernel:
    """The newest kernel of these, or of kernel.series: an image, or else a source to
    build."""
    images = {m["release"]: m["version"] for m in map(_IMAGE.fullmatch, listing) if m}
    images = {r: v for r, v in images.items() if f"linux-headers-{r}" in listing}
    known = known_series(listing)
    if kernel.series:
        images = {r: v for r, v in images.items() if v.startswith(f"{kernel.series}.")}
        known = [v for v in known if v == kernel.series]
    if images and not kernel.configs:
        best = max(images, key=lambda release: version_order(images[release]))
        return replace(kernel, release=best.replace("+", r"\+"))
    if not known:
        raise UsageError(
            f"kernel {kernel.series or kernel.name}: not in {kernel.extra_suites[-1]}; "
            f"there are {', '.join(known_series(listing))}"
        )
    source = max(known, key=version_order)
    configs = kernel.configs or BUILTIN  # only a source has it
    return replace(kernel, release=source, pins=(), configs=configs)


def find_kernel(kernel: Kernel) -> Kernel:
    """The kernel as its suites have it now: its release and its package's version."""
    if kernel.tree:
        return kernel
    listing = read_listing(kernel)
    if kernel.release == NEWEST:
        kernel = choose_newest(kernel, listing)
    kind = "source" if kernel.configs else "image"
    package = f"linux-{kind}-{kernel.release}".replace("\\", "")
    if package not in listing:
        raise LabError(
            f"kernel {kernel.name}: no {package} in {kernel.suite} and its further "
            f"suites; they have {', '.join(known_series(listing))}"
        )
    major, minor = version_order(listing[package])[:2]
    name = kernel.name.replace(NEWEST, f"{major}.{minor}")
    return replace(kernel, name=name, version=listing[package])
