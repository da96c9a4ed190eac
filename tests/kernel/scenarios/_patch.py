# SPDX-License-Identifier: GPL-2.0-or-later
"""A live patch of the function that sluice hooks; it drops all packets."""

from __future__ import annotations

import contextlib
import platform
from pathlib import Path
from typing import Iterator

from lab.guest.scenarios import Env

ALL = Path("/sys/kernel/livepatch")
PATCH = ALL / "patch_tun"
SECONDS = 60  # until each task has left the old function


def _settled() -> bool:
    return (PATCH / "transition").read_text().strip() == "0"


# Before 6.0 a function with a direct call cannot be patched.
SHARES = int(platform.release().partition(".")[0]) >= 6


class Refused(OSError):
    """The function has a direct call."""


def insert(env: Env) -> None:
    try:
        env.run("insmod", str(env.module.with_name("patch_tun.ko")))
    except AssertionError as error:
        if "busy" in str(error):
            raise Refused(str(error)) from error
        raise


@contextlib.contextmanager
def patched(env: Env) -> Iterator[None]:
    insert(env)
    try:
        env.wait_for(_settled, "the live patch is in place", SECONDS)
        yield
    finally:
        (PATCH / "enabled").write_text("0")
        env.wait_for(lambda: not PATCH.exists(), "the live patch is gone", SECONDS)
        env.run("rmmod", "patch_tun")
