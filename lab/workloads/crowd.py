# SPDX-License-Identifier: GPL-2.0-or-later
"""Many idle taps at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import struct
from typing import Iterator, List

from lab.workloads.devices import run_tool, silence_first_netns

TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI = 0x1002


def _open(name: str, flags: int) -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", name.encode(), IFF_TAP_NO_PI | flags)
    fcntl.ioctl(fd, TUNSETIFF, request)
    return fd


@contextlib.contextmanager
def crowd(size: int, flags: int = 0, name: str = "crowd") -> Iterator[None]:
    """So many taps with a reader that has nothing to read; flags besides IFF_TAP.

    They are a group, so that all can be removed at once.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = tuple(max(size + 1000, limit) for limit in before)
    resource.setrlimit(resource.RLIMIT_NOFILE, most)
    silence_first_netns()
    group = str(sum(name.encode()))
    names = [f"{name}{number}" for number in range(size)]
    files: List[int] = []
    try:
        for one in names:
            files.append(_open(one, flags))
        lines = (f"link set dev {one} group {group}\n" for one in names)
        run_tool(["ip", "-batch", "-"], stdin="".join(lines))
        yield
    finally:
        with contextlib.suppress(Exception):
            run_tool(["ip", "link", "del", "group", group])
        for fd in files:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
