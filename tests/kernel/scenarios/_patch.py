# SPDX-License-Identifier: GPL-2.0-or-later
"""A live patch of the function that sluice hooks; it drops all packets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from lab.guest.scenarios import Env

ALL = Path("/sys/kernel/livepatch")
PATCH = ALL / "patch_tun"
SECONDS = 60  # until each task has left the old function


def _settled() -> bool:
    return (PATCH / "transition").read_text().strip() == "0"


def shares(env: Env) -> bool:
    """Whether a function can have a direct call and a live patch: SLUICE_DIRECT_SHARES of
    kmod/compat.h."""
    had = {*env.run("modinfo", "-F", "features", str(env.module)).split()}
    calls = had & {"direct_multi", "direct_ops"}
    return bool(calls and had & {"ops_func", "ops_func_ip"})


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
