# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between the machines whose kernels the lab boots, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    name: str  # Debian's
    emulator: str  # QEMU's command
    emulator_package: str
    machine: str  # QEMU's model of the board
    cpu: str  # QEMU's model of the CPU, without KVM
    console: str = "ttyAMA0"
    cmdline: str = ""  # of the kernel, what only this machine has
    make: str = ""  # arguments of make, for the kernel and its modules
    compiler: str = ""  # what names of the compiler's tools begin with
    compiler_packages: tuple[str, ...] = ()  # if it is not the host's own


# What QEMU's own "max" adds to x86-64-v2 only costs: it advertises fast short
# "rep movsb" (fsrm), and a kernel that believes it copies byte by byte. One
# pktgen sender read 1.9 times as much with this model, TCP 1.4 times.
# AES is the host's own: with it a VPN's AES-256-GCM was 8.5 times as fast.
_EMULATED_X86 = "qemu64,+ssse3,+sse4_1,+sse4_2,+popcnt,+smap,+smep,+aes,+pclmulqdq"

HOST = Arch(
    name="amd64",
    emulator="qemu-system-x86_64",
    emulator_package="qemu-system-x86",
    machine="q35",
    cpu=_EMULATED_X86,
    console="ttyS0",
    cmdline="no5lvl tsc=reliable",
)
ARM64 = Arch(
    name="arm64",
    make="ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-",
    compiler="aarch64-linux-gnu-",
    compiler_packages=("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
    emulator="qemu-system-aarch64",
    emulator_package="qemu-system-arm",
    machine="virt,gic-version=3",
    cpu="cortex-a72",
)
ARMHF = Arch(
    name="armhf",
    make="ARCH=arm CROSS_COMPILE=arm-linux-gnueabihf-",
    compiler="arm-linux-gnueabihf-",
    compiler_packages=("gcc-arm-linux-gnueabihf", "libc6-dev-armhf-cross"),
    emulator="qemu-system-arm",
    emulator_package="qemu-system-arm",
    machine="virt,highmem=off",  # a kernel without LPAE reaches 4 GB
    cpu="cortex-a15",
)
