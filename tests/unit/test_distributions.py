# SPDX-License-Identifier: GPL-2.0-or-later
"""What the doctor proposes on each distribution, as data."""

from __future__ import annotations

import pytest

from sluice import distributions
from sluice.distributions import headers_advice

DEBIAN, UBUNTU = ("debian",), ("ubuntu", "debian")
RHEL = ("rhel", "fedora")
ARCH = ("arch",)


@pytest.mark.parametrize(
    ("distribution", "release", "command"),
    [
        (DEBIAN, "6.12.43+deb13-amd64",
         "apt install linux-headers-6.12.43+deb13-amd64 linux-headers-amd64"),
        (DEBIAN, "6.1.0-38-cloud-amd64",
         "apt install linux-headers-6.1.0-38-cloud-amd64 linux-headers-cloud-amd64"),
        (DEBIAN, "6.1.0-0.deb11.25-amd64",
         "apt install linux-headers-6.1.0-0.deb11.25-amd64 linux-headers-amd64"),
        (DEBIAN, "6.12.1-own", "apt install linux-headers-6.12.1-own"),
        (UBUNTU, "6.8.0-79-generic",
         "apt install linux-headers-6.8.0-79-generic linux-headers-generic"),
        (("linuxmint", "ubuntu", "debian"), "6.8.0-79-generic",
         "apt install linux-headers-6.8.0-79-generic linux-headers-generic"),
        (("raspbian", "debian"), "6.12.25+rpt-rpi-v8",
         "apt install linux-headers-6.12.25+rpt-rpi-v8 linux-headers-rpi-v8"),
        (DEBIAN, "6.8.12-4-pve",
         "apt install proxmox-headers-6.8.12-4-pve proxmox-default-headers"),
        (DEBIAN, "6.14.8-2-bpo12-pve",
         "apt install proxmox-headers-6.14.8-2-bpo12-pve proxmox-default-headers"),
        (DEBIAN, "5.15.158-2-pve", "apt install pve-headers-5.15.158-2-pve pve-headers"),
        (DEBIAN, "6.2.16-5-pve", "apt install pve-headers-6.2.16-5-pve pve-headers"),
        (("fedora",), "6.16.3-200.fc42.x86_64",
         "dnf install kernel-devel-6.16.3-200.fc42.x86_64"),
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
        (("sles", "suse"), "6.4.0-150600.8.37-azure",
         "zypper install kernel-azure-devel"),
        (ARCH, "6.16.4-arch1-1", "pacman -S linux-headers"),
        (ARCH, "6.12.44-1-lts", "pacman -S linux-lts-headers"),
        (ARCH, "6.16.4-zen1-1-zen", "pacman -S linux-zen-headers"),
        (ARCH, "6.15.11-hardened1-1-hardened", "pacman -S linux-hardened-headers"),
        (ARCH, "6.12.39-rt11-1-rt-lts", "pacman -S linux-rt-lts-headers"),
        (("cachyos", "arch"), "6.16.4-2-cachyos", "pacman -S linux-cachyos-headers"),
        (("cachyos", "arch"), "6.12.44-2-cachyos-lts",
         "pacman -S linux-cachyos-lts-headers"),
        (("manjaro", "arch"), "6.12.44-1-MANJARO", "pacman -S linux612-headers"),
        (("alpine",), "6.12.44-0-lts", "apk add linux-lts-dev"),
        (("alpine",), "6.12.44-0-virt", "apk add linux-virt-dev"),
        (("nixos",), "6.12.44", ""),
        (("gentoo",), "6.12.44-gentoo", ""),
        ((), "6.12.44", ""),
    ],
)
def test_headers(distribution, release: str, command: str) -> None:
    assert headers_advice(distribution, release).command == command


@pytest.mark.parametrize(
    ("distribution", "dkms", "module"),
    [
        (DEBIAN, "apt install dkms", "make deb"),
        (UBUNTU, "apt install dkms", "make deb"),
        (("fedora",), "dnf install dkms", "make install"),
        (("rocky", "rhel"), "dnf install dkms", "make install"),
        (("opensuse-tumbleweed", "opensuse", "suse"), "zypper install dkms",
         "make install"),
        (ARCH, "pacman -S dkms", "make install"),
        (("alpine",), "apk add akms", "make install"),
        (("gentoo",), "", "make install"),
    ],
)
def test_dkms_and_the_module(distribution, dkms: str, module: str) -> None:
    assert distributions.install_dkms(distribution) == dkms
    found = distributions.install_module(distribution)
    assert found.startswith(module) and found.endswith("# in a sluice tree")
