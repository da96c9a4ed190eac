# SPDX-License-Identifier: GPL-2.0-or-later
"""ftrace: its files, and what the kernel reports about users of tun's function."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from lab.guest.devices import run_tool
from lab.guest.scenarios import Env, Skipped

TRACING = Path("/sys/kernel/tracing")
TRANSMIT = "tun_net_xmit"
DIRECT = "direct-->sluice_entry"  # of that function


def has_ftrace() -> bool:
    """Whether it traces functions, not only events; mounts tracefs."""
    if TRACING.is_dir() and not TRACING.joinpath("events").exists():
        run_tool(["mount", "-t", "tracefs", "tracefs", str(TRACING)])
    return TRACING.joinpath("set_ftrace_filter").exists()


def mount_tracefs() -> None:
    if not has_ftrace():
        raise Skipped("this kernel has no ftrace")


def read_hook() -> str:
    """The kernel's line about that function; empty if nothing is attached to it."""
    said = (TRACING / "enabled_functions").read_text().replace("\n\t", " ")
    return "".join(line for line in said.splitlines() if line.startswith(TRANSMIT))


def settles_on_direct_call(env: Env) -> bool:
    """Whether a direct call was placed, once the module has decided about it."""
    wanted = Path("/sys/module/sluice/parameters/direct_call")
    env.wait_for(
        lambda: DIRECT in read_hook() or wanted.read_text().strip() == "N",
        "a direct call or none",
    )
    return DIRECT in read_hook()


@contextlib.contextmanager
def calls_lost(env: Env, function: str) -> Iterator[None]:
    """Calls of this function of sluice have no effect; needs kprobes."""
    if not Path("/sys/kernel/debug/kprobes").exists():
        env.skip("this kernel has no kprobes")
    lose_call = env.module.with_name("lose_call.ko")
    env.run("insmod", str(lose_call), f"function={function}")
    try:
        yield
    finally:
        env.run("rmmod", "lose_call")
