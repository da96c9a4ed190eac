# SPDX-License-Identifier: GPL-2.0-or-later
"""How each distribution installs what building the module needs: tables, one look-up.

A kernel's headers are found by its flavour, which is a part of its release: the first
row that matches a release gives the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
OWN_TREE = (
    "make HEADERS=DIR; insmod kmod/sluice.ko  # in a sluice tree; DIR: the tree that "
    "this kernel was built in"
)
# Kernels whose headers are in no package: what they are, and what to do.
FOREIGN = (
    (r".*microsoft.*", "WSL's kernel",
     f"build Microsoft's WSL2-Linux-Kernel of this release; {OWN_TREE}"),
    (r".*linode\d+", "Linode's kernel",
     "have the machine boot the distribution's kernel (in Linode's panel: GRUB 2)"),
    (r".*-(?:xxxx-)?(?:std|grs)-ipv6-64.*", "OVH's kernel",
     "have the machine boot the distribution's kernel"),
    (r".*-v[678]l?(?:_16k)?\+", "a kernel of rpi-update",
     "apt install --reinstall raspberrypi-kernel raspberrypi-kernel-headers; reboot"),
    (r".*linuxkit", "Docker Desktop's kernel", "use a machine with a kernel of its own"),
)


@dataclass(frozen=True)
class Answers:
    """What the package manager says of the running kernel and of its headers."""

    owner: str = ""  # the package that has the kernel
    owner_version: str = ""
    followed: str = ""  # the package that brings each new kernel of its kind
    followed_version: str = ""
    # The versions that can be had of each package, the one that would be installed
    # first; None: it was not asked. Empty: it does not know the archive.
    versions: Mapping[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Advice:
    """command: it brings the headers; empty: none does, for the reason."""

    reason: str = ""
    command: str = ""
    instead: str = ""  # what to do where no command brings them


def _plain(package: str) -> str:
    return re.sub(r"-(?:un)?signed(?=-|$)", "", package)


def _headers_of(package: str) -> str:
    """Of a package with a kernel, or of one that follows a kind of kernel."""
    plain = _plain(package)
    if plain == "raspberrypi-kernel":
        return "raspberrypi-kernel-headers"
    return re.sub(r"(?<=-)(?:image|kernel)(?=-|$)", "headers", plain, count=1)


def _flavour(package: str) -> str:
    """The words after the version: amd64, cloud-amd64, generic."""
    found = re.search(r"(?:-[a-z][\w.]*)+$", _plain(package))
    return found[0] if found else ""


FOLLOWED = r"(linux|proxmox|pve)-(image|kernel)-|proxmox-default-kernel|pve-kernel"


def parse_followed(owner: str, installed: Iterable[str]) -> tuple[str, str]:
    """The package that an installed kernel came by, and its version.

    installed: `PACKAGE VERSION DEPENDS...`, one for each. A kernel that is no longer the
    newest has none that depends on it: then one of its flavour.
    """
    same, alike = [], []
    for line in installed:
        name, version, *depends = re.split(r"[ ,|]+", line.strip())
        if not re.match(FOLLOWED, name):
            continue
        kernels = [_plain(one) for one in depends if re.match(FOLLOWED, one)]
        if _plain(owner) in kernels:
            same.append((name, version))
        elif any(re.search(r"\d", one) and _flavour(one) == _flavour(owner)
                 for one in kernels):
            alike.append((name, version))
    return (same + alike + [("", "")])[0]


def parse_policy(text: str) -> dict[str, tuple[str, ...]]:
    """The versions of each package in the output of apt-cache policy."""
    found: dict[str, tuple[str, ...]] = {}
    for block in re.split(r"\n(?=\S)", text):
        name, _, rest = block.partition(":\n")
        candidate = re.search(r"^  Candidate: (\S+)", rest, re.M)
        if candidate and candidate[1] != "(none)":
            others = re.findall(r"^ (?:\*\*\*|   ) (\S+) -?\d+$", rest, re.M)
            found[name] = tuple(dict.fromkeys([candidate[1], *others]))
    return found


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


def wanted_packages(
    one: Distribution, release: str, answers: Answers
) -> tuple[str, str]:
    """The headers of this kernel, and what brings those of the next; "" if unknown."""
    if one.install != "apt install" or not answers.owner:
        return headers_package(one, release), following_package(one, release)
    following = _headers_of(answers.followed) if answers.followed else ""
    return _headers_of(answers.owner), following


def _pinned(package: str, version: str, answers: Answers) -> str:
    """The package as apt is told it: of another release's archive by its version."""
    known = (answers.versions or {}).get(package, ())
    return f"{package}={version}" if version in known[1:] else package


def rpm_headers(one: Distribution, release: str, answers: Answers) -> str:
    """The package of headers, by the name of the package that has the kernel."""
    name = re.sub(r"(-modules)?-core$", "", answers.owner)
    if not name:
        return headers_package(one, release)
    if one.install == "zypper install":
        return f"{name}-devel={answers.owner_version}"
    return f"{name}-devel-{release.partition('+')[0]}"


def _foreign(release: str, answers: Answers) -> Advice | None:
    for pattern, what, instead in FOREIGN if not answers.owner else ():
        if re.fullmatch(pattern, release):
            return Advice(f"{what}: no package has its headers", instead=instead)
    return None


def _newest(following: str, answers: Answers) -> Advice:
    """Where the archive has no headers of this kernel, a newer kernel with them."""
    if not following:
        return Advice("no package has them", instead=OWN_TREE)
    kernel = answers.followed or following.replace("headers", "image", 1)
    version = (answers.versions or {}).get(kernel, ("",))[0]
    headers = _pinned(following, version, answers)
    return Advice("no package has them any more",
                  instead=f"apt install {kernel} {headers}; reboot")


def _of_apt(one: Distribution, release: str, answers: Answers) -> Advice:
    package, following = wanted_packages(one, release, answers)
    if not answers.versions:
        update = "apt update; " if answers.versions is not None else ""
        return Advice(command=f"{update}apt install {package} {following}".rstrip())
    if following not in answers.versions:
        following = ""
    if package not in answers.versions:
        return _newest(following, answers)
    if answers.owner and release not in answers.owner:  # one name for all releases
        if answers.owner_version not in answers.versions[package]:
            return Advice("no package has them any more",
                          instead=f"apt install {answers.owner} {package}; reboot")
        package = _pinned(package, answers.owner_version, answers)
    following = _pinned(following, answers.followed_version, answers)
    return Advice(command=f"apt install {package} {following}".rstrip())


def headers_advice(
    distribution: tuple[str, ...], release: str, answers: Answers | None = None
) -> Advice:
    """How to get the headers of a kernel, and of those that follow it."""
    one, answers = find(distribution), answers or Answers()
    if foreign := _foreign(release, answers):
        return foreign
    if one is not None and one.install == "apt install":
        return _of_apt(one, release, answers)
    if one is None:
        return Advice(instead=f"install the headers of kernel {release}")
    package = headers_package(one, release)
    if one.install in ("dnf install", "zypper install"):
        package = rpm_headers(one, release, answers)
    elif one.install == "pacman -S" and answers.owner:
        package = f"{answers.owner}-headers"
    if answers.versions is not None and package not in answers.versions:
        kernel = re.sub(r"-devel.*", "", package)
        return Advice("no repository has them any more",
                      instead=f"dnf upgrade {kernel}; dnf install {kernel}-devel; reboot")
    return Advice(command=f"{one.install} {package}")


# Systems whose /usr is an image: nothing can be written where DKMS puts a module.
IMAGES = {
    "ostree": "in a toolbox: dnf install make gcc kernel-devel-{release}; in a sluice "
    "tree there: make HEADERS=/usr/src/kernels/{release}; on the host: insmod "
    "kmod/sluice.ko",
    "transactional-update": "transactional-update pkg install make gcc kernel-{flavour}"
    "-devel; reboot; in a sluice tree: make; insmod kmod/sluice.ko",
    "SteamOS": "steamos-readonly disable; pacman -S make gcc {base}-headers; in a sluice "
    "tree: make; insmod kmod/sluice.ko; steamos-readonly enable",
    "image": "build the module where such an image is made",
}


def image_kind(os_release: Mapping[str, str], ostree: bool) -> str:
    """The kind of a system whose /usr is an image; "" if it is none."""
    name, variant = os_release.get("ID", ""), os_release.get("VARIANT_ID", "")
    if ostree:
        return "ostree"
    if name == "steamos" or variant == "steamdeck":
        return "SteamOS"
    if re.search("micro|aeon|kalpa", name):
        return "transactional-update"
    if name in ("flatcar", "talos", "bottlerocket", "cos", "ubuntu-core", "rancheros"):
        return "image"
    return ""


def image_advice(kind: str, release: str, base: str = "") -> str:
    """What to do there; base: the kernel's package, where pacman knows it."""
    return IMAGES[kind].format(
        release=release, flavour=release.rpartition("-")[2], base=base or "linux-neptune"
    )


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
