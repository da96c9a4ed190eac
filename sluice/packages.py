# SPDX-License-Identifier: GPL-2.0-or-later
"""What the package manager says: which package has a kernel, which has its headers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sluice import distributions, system
from sluice.distributions import Answers

# A package that every archive of apt has: without it the archive is not known here.
COMMON = "dkms"
NONE: tuple[str, str] = ("", "")


def read_answers(distribution: tuple[str, ...], release: str) -> Answers:
    """Of the distribution's own package manager, about this kernel."""
    one = distributions.find(distribution)
    if one is None:
        return Answers()
    if one.install == "apt install":
        return _ask_apt(one, release)
    if one.install in ("dnf install", "zypper install"):
        return _ask_rpm(one, release)
    if one.install == "pacman -S":
        base = system.ROOT_FOLDER / "usr/lib/modules" / release / "pkgbase"
        return Answers(owner=(system.read_text(base) or "").strip())
    return Answers()


def parse_owner(text: str) -> str:
    """The package with the kernel, of those that dpkg-query -S names for a path."""
    names = [name for line in text.splitlines()
             for name in line.partition(": ")[0].replace(",", " ").split()
             if not line.startswith("diversion by ")]
    plain = [name.partition(":")[0] for name in names]
    return next((name for name in plain if "image" in name or "kernel" in name), "")


def parse_installed(text: str) -> list[str]:
    """`PACKAGE VERSION DEPENDS...` of those that dpkg-query lists as installed: it lists
    what it only knows of, too."""
    state = "installed "
    lines = [line.removeprefix(state) for line in text.splitlines()
             if line.startswith(state)]
    return [line for line in lines if len(line.split()) > 1]


def _ask_apt(one: distributions.Distribution, release: str) -> Answers:
    owner = ""
    for path in (f"/boot/vmlinuz-{release}", f"/lib/modules/{release}"):
        status, text = system.read_output("dpkg-query", "-S", path)
        owner = owner or (parse_owner(text) if status == 0 else "")
    form = "${db:Status-Status} ${Package} ${Version} ${Depends}\\n"
    names = ("linux-*", "proxmox-*", "pve-*", "raspberrypi-*")
    _, listed = system.read_output("dpkg-query", "-W", "-f", form, *names)
    installed = parse_installed(listed)
    followed, version = distributions.parse_followed(owner, installed) if owner else NONE
    own = {line.split()[0]: line.split()[1] for line in installed}.get(owner, "")
    answers = Answers(owner, own, followed, version)
    asked = [*distributions.wanted_packages(one, release, answers), followed, COMMON]
    following = distributions.following_package(one, release)
    asked += [following, following.replace("headers", "image", 1)]
    wanted = dict.fromkeys(filter(None, asked))
    status, text = system.read_output("apt-cache", "policy", *wanted)
    if status:
        return answers
    found = distributions.parse_policy(text)
    versions = found if COMMON in found else {}
    return replace(answers, versions=versions)


def _ask_rpm(one: distributions.Distribution, release: str) -> Answers:
    form = "%{NAME} %{VERSION}-%{RELEASE}\\n"
    answers = Answers()
    for path in (f"/boot/vmlinuz-{release}", f"/lib/modules/{release}/vmlinuz"):
        status, text = system.read_output("rpm", "-qf", "--qf", form, path)
        words = text.split()
        if status == 0 and len(words) == 2:
            answers = Answers(words[0], words[1])
    if one.install != "dnf install":
        return answers
    package = distributions.rpm_headers(one, release, answers)
    ask = ("dnf", "-q", "-C", "repoquery", package)  # of what it has looked up before
    status, text = system.read_output(*ask, seconds=30)
    if status:
        return answers
    return replace(answers, versions={package: (text.strip(),)} if text.strip() else {})


def modules_are_gone(release: str) -> bool:
    """Whether the running kernel's modules were removed, as by an upgrade, while those of
    another kernel are there."""
    folder = Path(system.ROOT_FOLDER / "lib/modules")
    own = folder / release / "modules.builtin"
    return not own.exists() and any(folder.glob("*/modules.builtin"))
