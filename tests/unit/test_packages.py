# SPDX-License-Identifier: GPL-2.0-or-later
"""The headers of the running kernel, by the answers of package managers.

RECORDED answers are those of apt 2.6 and dpkg 1.21 with Debian 12's archives of November
2026, without lines of addresses, of rpm 4.18 and of dnf 4.14. The others have the names
and dependencies that packages of these distributions have; their archives were not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sluice import distributions, doctor, packages, system
from sluice.distributions import Advice, headers_advice, image_kind
from sluice.doctor import BAD, NOTE
from tests.unit.test_doctor import FINE, UNLOADED, found, only

DEBIAN, UBUNTU, PVE = ("debian",), ("ubuntu", "debian"), ("debian",)
ARMBIAN, RASPBIAN = ("armbian", "debian"), ("raspbian", "debian")
HEADERS_POLICY = """\
linux-headers-amd64:
  Installed: (none)
  Candidate: 6.1.192-3
  Version table:
     6.12.95-1~bpo12+1 100
     6.1.192-3 500
     6.1.176-1 500
dkms:
  Installed: (none)
  Candidate: 3.0.10-8+deb12u1
  Version table:
     3.0.10-8+deb12u1 500
"""
BACKPORTS = {
    "-S /boot/": "linux-image-6.12.95+deb12-amd64: /boot/vmlinuz-6.12.95+deb12-amd64\n",
    "-W": """\
not-installed linux-headers-amd64\x20\x20
installed linux-image-6.12.95+deb12-amd64 6.12.95-1~bpo12+1\x20
installed linux-image-amd64 6.12.95-1~bpo12+1 linux-image-6.12.95+deb12-amd64 \
(= 6.12.95-1~bpo12+1)
""",
    "policy": HEADERS_POLICY + """\
linux-headers-6.12.95+deb12-amd64:
  Installed: (none)
  Candidate: 6.12.95-1~bpo12+1
  Version table:
     6.12.95-1~bpo12+1 100
linux-image-amd64:
  Installed: 6.12.95-1~bpo12+1
  Candidate: 6.12.95-1~bpo12+1
  Version table:
     6.12.95-1~bpo12+1 100
 *** 6.12.95-1~bpo12+1 100
     6.1.192-3 500
     6.1.176-1 500
""",
}
# The archive has the headers of the five newest kernels of a release.
OLD = {
    "-S /boot/": "linux-image-6.1.0-38-amd64: /boot/vmlinuz-6.1.0-38-amd64\n",
    "-W": """\
installed linux-image-6.1.0-38-amd64 6.1.147-1\x20
installed linux-image-6.1.0-57-amd64 6.1.192-3\x20
installed linux-image-amd64 6.1.192-3 linux-image-6.1.0-57-amd64 (= 6.1.192-3)
""",
    "policy": HEADERS_POLICY + """\
linux-image-amd64:
  Installed: 6.1.192-3
  Candidate: 6.1.192-3
  Version table:
     6.12.95-1~bpo12+1 100
     6.1.192-3 500
 *** 6.1.192-3 100
     6.1.176-1 500
""",
}


def dpkg(release: str, owner: str, *installed: str, known: str = "") -> dict[str, str]:
    """installed: `PACKAGE DEPENDS`; known: headers that the archive has."""
    lines = [f"installed {name.replace(' ', ' 1.0 ', 1)}" for name in installed]
    versions = "".join(
        f"{name}:\n  Candidate: 1.0\n  Version table:\n     1.0 500\n"
        for name in ["dkms", *known.split()]
    )
    return {
        "-S /boot/": f"{owner}: /boot/vmlinuz-{release}\n" if owner else "",
        "-W": "\n".join(lines),
        "policy": versions,
    }


HWE, KVM, ROCK = "6.14.0-27-generic", "5.4.0-1100-kvm", "6.6.62-current-rockchip64"
CASES: list[tuple[tuple[str, ...], str, Mapping[str, str], str]] = [
    (DEBIAN, "6.12.95+deb12-amd64", BACKPORTS,
     "apt install linux-headers-6.12.95+deb12-amd64 "
     "linux-headers-amd64=6.12.95-1~bpo12+1"),
    (DEBIAN, "6.1.0-38-amd64", OLD,
     "apt install linux-image-amd64 linux-headers-amd64; reboot"),
    (UBUNTU, HWE, dpkg(
        HWE, f"linux-image-{HWE}",
        f"linux-image-generic-hwe-24.04 linux-image-{HWE}, linux-firmware",
        "linux-image-generic linux-image-6.8.0-79-generic",
        f"linux-modules-extra-{HWE} linux-image-{HWE} | linux-image-unsigned-{HWE}",
        known=f"linux-headers-{HWE} linux-headers-generic-hwe-24.04",
    ), f"apt install linux-headers-{HWE} linux-headers-generic-hwe-24.04"),
    # An older one is booted: the package of its flavour counts.
    (UBUNTU, KVM, dpkg(
        KVM, f"linux-image-{KVM}", f"linux-image-{KVM} ",
        "linux-image-kvm linux-image-5.4.0-1120-kvm",
        "linux-image-generic linux-image-5.4.0-200-generic",
        known=f"linux-headers-{KVM} linux-headers-kvm linux-headers-generic",
    ), f"apt install linux-headers-{KVM} linux-headers-kvm"),
    (PVE, "6.14.8-2-bpo12-pve", dpkg(
        "6.14.8-2-bpo12-pve", "proxmox-kernel-6.14.8-2-bpo12-pve-signed",
        "proxmox-kernel-6.14 proxmox-kernel-6.14.8-2-bpo12-pve-signed | "
        "proxmox-kernel-6.14.8-2-bpo12-pve", "proxmox-default-kernel proxmox-kernel-6.8",
        known="proxmox-headers-6.14.8-2-bpo12-pve proxmox-headers-6.14",
    ), "apt install proxmox-headers-6.14.8-2-bpo12-pve proxmox-headers-6.14"),
    (RASPBIAN, "6.12.25+rpt-rpi-v8", dpkg(
        "6.12.25+rpt-rpi-v8", "linux-image-6.12.25+rpt-rpi-v8",
        "linux-image-rpi-v8 linux-image-6.12.25+rpt-rpi-v8",
        known="linux-headers-6.12.25+rpt-rpi-v8 linux-headers-rpi-v8",
    ), "apt install linux-headers-6.12.25+rpt-rpi-v8 linux-headers-rpi-v8"),
    # One package for all releases: of the same version.
    (ARMBIAN, ROCK, dpkg(
        ROCK, "linux-image-current-rockchip64", "linux-image-current-rockchip64 ",
        known="linux-headers-current-rockchip64",
    ), "apt install linux-headers-current-rockchip64"),
    (ARMBIAN, ROCK, {**dpkg(
        ROCK, "linux-image-current-rockchip64", known="linux-headers-current-rockchip64",
    ), "-W": "installed linux-image-current-rockchip64 0.9 "},
     "apt install linux-image-current-rockchip64 linux-headers-current-rockchip64; "
     "reboot"),
    # A kernel without a metapackage: nothing brings the next headers.
    (DEBIAN, "6.1.0-57-amd64", dpkg(
        "6.1.0-57-amd64", "linux-image-6.1.0-57-amd64",
        known="linux-headers-6.1.0-57-amd64 linux-headers-amd64",
    ), "apt install linux-headers-6.1.0-57-amd64"),
    # apt has no lists yet.
    (DEBIAN, "6.1.0-57-amd64", {**dpkg(
        "6.1.0-57-amd64", "linux-image-6.1.0-57-amd64",
        "linux-image-amd64 linux-image-6.1.0-57-amd64"), "policy": "\n"},
     "apt update; apt install linux-headers-6.1.0-57-amd64 linux-headers-amd64"),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Answers by a part of the question; there is no other program."""
    answers: dict[str, str] = {}

    def read_output(*command: str, seconds: float = 0) -> tuple[int, str]:
        question = " ".join(command)
        for part, answer in answers.items():
            if part in question:
                return (0, answer) if answer else (1, "")
        return 1, ""

    monkeypatch.setattr(system, "read_output", read_output)
    monkeypatch.setattr(system, "ROOT_FOLDER", tmp_path)
    return answers


@pytest.mark.parametrize(("distribution", "release", "answers", "command"), CASES)
def test_headers_are_those_that_the_kernel_came_with(
    asked, distribution, release: str, answers, command: str
) -> None:
    asked.update(answers)
    known = packages.read_answers(distribution, release)
    advice = headers_advice(distribution, release, known)
    assert (advice.command or advice.instead) == command
    assert bool(advice.reason) == bool(advice.instead)


@pytest.mark.parametrize(("release", "reason", "instead"), [
    ("6.6.87.2-microsoft-standard-WSL2", "WSL's kernel", "build Microsoft's"),
    ("6.15.7-x86_64-linode169", "Linode's kernel", "Linode's panel"),
    ("5.15.62-mod-std-ipv6-64", "OVH's kernel", "boot the distribution's kernel"),
    ("6.1.21-v8+", "rpi-update", "--reinstall raspberrypi-kernel"),
    ("6.12.54-linuxkit", "Docker Desktop", "a kernel of its own"),
    ("6.12.1-own", "no package has them", "make HEADERS=DIR"),
])
@pytest.mark.parametrize("distribution", [DEBIAN, UBUNTU])
def test_kernel_whose_headers_are_in_no_package(
    asked, distribution, release: str, reason: str, instead: str
) -> None:
    asked["policy"] = HEADERS_POLICY
    known = packages.read_answers(distribution, release)
    advice = headers_advice(distribution, release, known)
    assert not advice.command, "apt: Unable to locate package"
    assert reason in advice.reason and instead in advice.instead
    facts = replace(FINE, release=release, headers=False, answers_of=known, dkms="",
                    module_source=False, distribution=distribution)
    (finding,) = [one for one in found(facts, NOTE) if one.subject == "headers"]
    assert reason in finding.text and instead in finding.fix


F42, EL9 = "6.16.3-200.fc42.x86_64", "5.14.0-570.el9.aarch64+64k"
LEAP = "6.4.0-150600.23.65-default"


@pytest.mark.parametrize(("distribution", "release", "answers", "command"), [
    # RECORDED.
    (("fedora",), F42, {
        f"{F42}/vmlinuz": "kernel-core 6.16.3-200.fc42\n",
        "repoquery": "kernel-devel-0:6.16.3-200.fc42.x86_64\n",
    }, f"dnf install kernel-devel-{F42}"),
    (("rocky", "rhel", "centos", "fedora"), EL9,
     {f"{EL9}/vmlinuz": "kernel-64k-core 5.14.0-570.el9\n"},
     "dnf install kernel-64k-devel-5.14.0-570.el9.aarch64"),
    (("opensuse-leap", "suse", "opensuse"), LEAP,
     {f"vmlinuz-{LEAP}": "kernel-default 6.4.0-150600.23.65.1\n"},
     "zypper install kernel-default-devel=6.4.0-150600.23.65.1"),
    # Not asked: the names alone.
    (("almalinux", "rhel"), "6.9.1-1.el9.elrepo.x86_64",
     {"vmlinuz": "kernel-ml-core 6.9.1-1.el9.elrepo\n"},
     "dnf install kernel-ml-devel-6.9.1-1.el9.elrepo.x86_64"),
    (("amzn", "fedora"), "6.12.40-63.114.amzn2023.x86_64",
     {"vmlinuz": "kernel6.12 6.12.40-63.114.amzn2023\n"},
     "dnf install kernel6.12-devel-6.12.40-63.114.amzn2023.x86_64"),
    (("fedora",), F42, {}, f"dnf install kernel-devel-{F42}"),
])
def test_headers_by_the_name_of_an_rpm(
    asked, distribution, release: str, answers, command: str
) -> None:
    asked.update(answers)
    known = packages.read_answers(distribution, release)
    assert headers_advice(distribution, release, known) == Advice(command=command)


def test_repository_that_has_only_newer_headers(monkeypatch) -> None:
    """RECORDED: dnf repoquery then succeeds and prints nothing."""
    monkeypatch.setattr(system, "read_output", lambda *_, **__: (0, ""))
    advice = headers_advice(("fedora",), F42, packages.read_answers(("fedora",), F42))
    assert advice.reason == "no repository has them any more"
    assert advice.instead == "dnf upgrade kernel; dnf install kernel-devel; reboot"


@pytest.mark.parametrize("base", ["linux", "linux-zen", "linux-cachyos-lts", "linux612"])
def test_arch_kernels_name_their_package(asked, tmp_path: Path, base: str) -> None:
    release = "6.16.4-arch1-1"
    path = tmp_path / "usr/lib/modules" / release / "pkgbase"
    path.parent.mkdir(parents=True)
    path.write_text(f"{base}\n")
    known = packages.read_answers(("arch",), release)
    assert headers_advice(("arch",), release, known).command == (
        f"pacman -S {base}-headers"
    )


@pytest.mark.parametrize(("there", "gone"), [
    ([], False),  # a kernel without modules, or a container
    (["6.16.4-arch1-1"], False),
    (["6.16.4-arch1-1", "6.16.5-arch1-1"], False),
    (["6.16.5-arch1-1"], True),  # upgraded, and not booted again
])
def test_modules_that_an_upgrade_took_away(
    asked, tmp_path: Path, there: list[str], gone: bool
) -> None:
    for release in there:
        path = tmp_path / "lib/modules" / release / "modules.builtin"
        path.parent.mkdir(parents=True)
        path.touch()
    own = tmp_path / "lib/modules/6.16.4-arch1-1/updates/dkms"
    own.mkdir(parents=True, exist_ok=True)  # what DKMS leaves
    assert packages.modules_are_gone("6.16.4-arch1-1") is gone


@pytest.mark.parametrize(("names", "ostree", "kind"), [
    ("fedora bazzite", True, "ostree"),
    ("opensuse-microos opensuse-aeon sl-micro", False, "transactional-update"),
    ("steamos", False, "SteamOS"),
    ("flatcar", False, "image"),
    ("fedora opensuse-tumbleweed debian", False, ""),
])
def test_systems_whose_usr_is_an_image(names: str, ostree: bool, kind: str) -> None:
    assert {image_kind({"ID": name}, ostree) for name in names.split()} == {kind}
    assert image_kind({}, False) == ""


@pytest.mark.parametrize("kind", distributions.IMAGES)
def test_image_is_one_finding_without_dkms(kind: str) -> None:
    facts = replace(FINE, **UNLOADED, image=kind, headers=False, dkms=None,
                    module_file=False, distribution=("fedora",))
    finding = only(facts, BAD)
    assert kind in finding.text and "dkms" not in finding.fix
    assert "install dkms" not in str(doctor.examine(facts))


# What is proposed by the names alone

RHEL = ("rhel", "fedora")
ARCH = ("arch",)


@pytest.mark.parametrize(("distribution", "release", "command"), [
    (DEBIAN, "6.12.43+deb13-amd64",
     "apt install linux-headers-6.12.43+deb13-amd64 linux-headers-amd64"),
    (DEBIAN, "6.1.0-38-cloud-amd64",
     "apt install linux-headers-6.1.0-38-cloud-amd64 linux-headers-cloud-amd64"),
    (DEBIAN, "6.12.1-own", "apt install linux-headers-6.12.1-own"),
    (UBUNTU, "6.8.0-79-generic",
     "apt install linux-headers-6.8.0-79-generic linux-headers-generic"),
    (("raspbian", "debian"), "6.12.25+rpt-rpi-v8",
     "apt install linux-headers-6.12.25+rpt-rpi-v8 linux-headers-rpi-v8"),
    (DEBIAN, "6.14.8-2-bpo12-pve",
     "apt install proxmox-headers-6.14.8-2-bpo12-pve proxmox-default-headers"),
    (DEBIAN, "6.2.16-5-pve", "apt install pve-headers-6.2.16-5-pve pve-headers"),
    (RHEL, "5.14.0-570.el9.x86_64", "dnf install kernel-devel-5.14.0-570.el9.x86_64"),
    (("rocky", "rhel", "centos", "fedora"), "5.14.0-570.el9.x86_64+debug",
     "dnf install kernel-debug-devel-5.14.0-570.el9.x86_64"),
    (("almalinux", "rhel", "centos", "fedora"), "5.14.0-570.el9.aarch64+64k",
     "dnf install kernel-64k-devel-5.14.0-570.el9.aarch64"),
    (("ol", "fedora"), "6.12.0-100.28.2.el9uek.x86_64",
     "dnf install kernel-uek-devel-6.12.0-100.28.2.el9uek.x86_64"),
    (("amzn", "centos", "rhel", "fedora"), "6.1.147-172.266.amzn2023.x86_64",
     "dnf install kernel-devel-6.1.147-172.266.amzn2023.x86_64"),
    (("amzn", "centos", "rhel", "fedora"), "6.12.40-63.114.amzn2023.x86_64",
     "dnf install kernel6.12-devel"),
    (("opensuse-leap", "suse", "opensuse"), "6.4.0-150600.23.65-default",
     "zypper install kernel-default-devel"),
    (ARCH, "6.16.4-arch1-1", "pacman -S linux-headers"),
    (ARCH, "6.12.44-1-lts", "pacman -S linux-lts-headers"),
    (ARCH, "6.12.39-rt11-1-rt-lts", "pacman -S linux-rt-lts-headers"),
    (("cachyos", "arch"), "6.16.4-2-cachyos", "pacman -S linux-cachyos-headers"),
    (("manjaro", "arch"), "6.12.44-1-MANJARO", "pacman -S linux612-headers"),
    (("alpine",), "6.12.44-0-virt", "apk add linux-virt-dev"),
    (("nixos",), "6.12.44", ""),
    (("gentoo",), "6.12.44-gentoo", ""),
    ((), "6.12.44", ""),
])
def test_headers(distribution, release: str, command: str) -> None:
    assert headers_advice(distribution, release).command == command


@pytest.mark.parametrize(("distribution", "dkms", "module"), [
    (DEBIAN, "apt install dkms", "make deb"),
    (("fedora",), "dnf install dkms", "make install"),
    (("opensuse-tumbleweed", "opensuse", "suse"), "zypper install dkms",
     "make install"),
    (ARCH, "pacman -S dkms", "make install"),
    (("alpine",), "apk add akms", "make install"),
    (("gentoo",), "", "make install"),
])
def test_dkms_and_the_module(distribution, dkms: str, module: str) -> None:
    assert distributions.install_dkms(distribution) == dkms
    found = distributions.install_module(distribution)
    assert found.startswith(module) and found.endswith("# in a sluice tree")
