# SPDX-License-Identifier: GPL-2.0-or-later
"""How each distribution installs what building the module needs: tables, one look-up.

A kernel's headers are found by its flavour, which is a part of its release: the first
row that matches a release gives the package.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Distribution:
    """install: the command before a package's name; headers: release to package."""

    ids: tuple[str, ...]  # of os-release: ID, or one of ID_LIKE
    install: str
    headers: tuple[tuple[str, str], ...]  # pattern, package with groups of it
    # As headers: the package that brings those of each new kernel of this flavour,
    # where it is another. apt installs nothing if one name is unknown, so that only
    # flavours are here which have it.
    following: tuple[tuple[str, str], ...] = ()
    dkms: str = "dkms"
    mokutil: str = "mokutil"
    reboot: str = "reboot"


DEBIAN_HEADERS = (
    # Proxmox renamed its packages with 6.5.
    (r"((?:[2-5]\..*|6\.2\..*)-pve)", r"pve-headers-\1"),
    (r"(.*-pve)", r"proxmox-headers-\1"),
    (r"(.*)", r"linux-headers-\1"),
)
DEBIAN_FOLLOWING = (
    (r"(?:[2-5]\..*|6\.2\..*)-pve", "pve-headers"),
    (r".*-pve", "proxmox-default-headers"),
    (r".*?-((?:cloud-)?(?:amd64|arm64)|armmp(?:-lpae)?|686(?:-pae)?)",
     r"linux-headers-\1"),
    (r".*-\d+-(generic|lowlatency|aws|azure|gcp|oracle|raspi)", r"linux-headers-\1"),
    (r".*\+rpt-(rpi-.*)", r"linux-headers-\1"),
)
FEDORA_HEADERS = (
    (r"(.*uek.*)", r"kernel-uek-devel-\1"),
    (r"(.*)\+debug", r"kernel-debug-devel-\1"),
    (r"(.*)\+rt", r"kernel-rt-devel-\1"),
    (r"(.*)\+64k", r"kernel-64k-devel-\1"),
    (r"(.*)", r"kernel-devel-\1"),
)
DISTRIBUTIONS = (
    Distribution(("manjaro",), "pacman -S", (
        (r"(\d+)\.(\d+)\..*-MANJARO", r"linux\1\2-headers"),
        (r".*", "linux-headers"),
    )),
    Distribution(("debian", "ubuntu", "proxmox"), "apt install", DEBIAN_HEADERS,
                 DEBIAN_FOLLOWING),
    # dkms is in EPEL.
    Distribution(("rhel", "centos", "rocky", "almalinux", "ol"), "dnf install",
                 FEDORA_HEADERS),
    Distribution(("amzn",), "dnf install", (
        (r"(6\.(?:1[0-9]|[2-9][0-9]))\..*", r"kernel\1-devel"),
        (r"(.*)", r"kernel-devel-\1"),
    )),
    Distribution(("fedora",), "dnf install", FEDORA_HEADERS),
    Distribution(("suse", "opensuse"), "zypper install", (
        (r".*-([a-z0-9_]+)", r"kernel-\1-devel"),
    )),
    Distribution(("arch",), "pacman -S", (
        (r".*-cachyos-([a-z-]+)", r"linux-cachyos-\1-headers"),
        (r".*-cachyos", "linux-cachyos-headers"),
        (r".*-rt-lts", "linux-rt-lts-headers"),
        (r".*-(lts|zen|hardened|rt)", r"linux-\1-headers"),
        (r".*", "linux-headers"),
    )),
    Distribution(("alpine",), "apk add", (
        (r".*-([a-z]+)", r"linux-\1-dev"),
        (r".*", "linux-lts-dev"),
    ), dkms="akms"),
)
NIXOS = "nixos"


def find(distribution: tuple[str, ...]) -> Distribution | None:
    """distribution: ID and ID_LIKE of os-release; the first word counts most."""
    for word in distribution:
        for one in DISTRIBUTIONS:
            if any(word == name or word.startswith(f"{name}-") for name in one.ids):
                return one
    return None


def _look_up(table: tuple[tuple[str, str], ...], release: str) -> str:
    for pattern, package in table:
        if found := re.fullmatch(pattern, release):
            return found.expand(package)
    return ""


def headers_package(one: Distribution, release: str) -> str:
    return _look_up(one.headers, release)


def following_package(one: Distribution, release: str) -> str:
    """The package that brings the headers of the next kernel; empty: none is known."""
    return _look_up(one.following, release)


def install_headers(distribution: tuple[str, ...], release: str) -> str:
    """The command that installs the headers of a kernel and of those that follow it;
    empty: there is none.
    """
    one = find(distribution)
    if one is None or not (package := headers_package(one, release)):
        return ""
    return f"{one.install} {package} {following_package(one, release)}".rstrip()


def install_dkms(distribution: tuple[str, ...]) -> str:
    one = find(distribution)
    return f"{one.install} {one.dkms}" if one else ""


def install_mokutil(distribution: tuple[str, ...]) -> str:
    one = find(distribution)
    return f"{one.install} {one.mokutil}" if one else ""


def install_module(distribution: tuple[str, ...]) -> str:
    """How the module is installed: built from a tree, as no archive has a package."""
    one = find(distribution)
    if one and one.install == "apt install":
        return "make deb && apt install ./out/sluice-*.deb  # in a sluice tree"
    return "make install  # in a sluice tree"
