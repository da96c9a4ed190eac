# SPDX-License-Identifier: GPL-2.0-or-later
"""ftrace: its files, and what the kernel reports about users of tun's function."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

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


def _append(name: str, text: str) -> None:
    file = os.open(TRACING / name, os.O_WRONLY | os.O_APPEND)  # keeps the other lines
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _count_in_trace(word: str) -> int:
    return (TRACING / "trace").read_text().count(word)


@contextlib.contextmanager
def probe(
    kind: str, function: str = TRANSMIT, trigger: str = ""
) -> Iterator[Callable[[], int]]:
    """A kprobe (p) or a kretprobe (r), which writes each call to the trace.

    trigger: what else is done with each call.
    """
    _append("kprobe_events", f"{kind}:sluice_other {function}\n")
    event = TRACING / "events/kprobes/sluice_other"
    (TRACING / "trace").write_text("")
    if trigger:
        (event / "trigger").write_text(trigger)
    (event / "enable").write_text("1")
    try:
        yield lambda: _count_in_trace("sluice_other: ")
    finally:
        (event / "enable").write_text("0")
        if trigger:
            (event / "trigger").write_text(f"!{trigger}")
        _append("kprobe_events", "-:sluice_other\n")


@contextlib.contextmanager
def tracer(name: str) -> Iterator[Callable[[], int]]:
    """The function or the function_graph tracer, on that function alone."""
    (TRACING / "set_ftrace_filter").write_text(TRANSMIT)
    (TRACING / "trace").write_text("")
    (TRACING / "current_tracer").write_text(name)
    try:
        # "tun_net_xmit <-caller", "tun_net_xmit [tun]();" or, built in, "tun_net_xmit();"
        yield lambda: sum(_count_in_trace(f" {TRANSMIT}{end}") for end in " (")
    finally:
        (TRACING / "current_tracer").write_text("nop")
        (TRACING / "set_ftrace_filter").write_text("")


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
