# SPDX-License-Identifier: GPL-2.0-or-later
"""Many idle taps at once."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator

from lab.guest.devices import run_tool, silence_first_netns
from lab.guest.tun import IFF_NO_PI, IFF_TAP, open_queue


def group_of(name: str) -> str:
    """The group of the devices whose names begin with this."""
    return str(sum(name.encode()))


@contextlib.contextmanager
def crowd(size: int, flags: int = 0, name: str = "crowd") -> Iterator[None]:
    """So many taps with a reader that has nothing to read; flags besides IFF_TAP.

    They are a group, so that all can be removed at once: one after the other they take
    a grace period each.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (max(size + 1000, limit) for limit in before)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    silence_first_netns()
    group = group_of(name)
    names = [f"{name}{number}" for number in range(size)]
    files: list[int] = []
    try:
        for one in names:
            files.append(open_queue(IFF_TAP | IFF_NO_PI | flags, one))
        lines = (f"link set dev {one} group {group}\n" for one in names)
        run_tool(["ip", "-batch", "-"], stdin="".join(lines))
        yield
    finally:
        with contextlib.suppress(Exception):
            run_tool(["ip", "link", "del", "group", group])
        for fd in files:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
