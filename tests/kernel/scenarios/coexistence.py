# SPDX-License-Identifier: GPL-2.0-or-later
"""Other users of the function that sluice hooks, attached before sluice and after."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios import _ftrace, _others, _patch
from tests.kernel.scenarios._ftrace import TRACING, mount_tracefs
from tests.kernel.scenarios._traffic import (
    case,
    send,
    sink,
)


def _append(name: str, text: str) -> None:
    file = os.open(TRACING / name, os.O_WRONLY | os.O_APPEND)  # keeps the other lines
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _count_in_trace(word: str) -> int:
    return (TRACING / "trace").read_text().count(word)


@contextlib.contextmanager
def _probe(
    kind: str, function: str = _ftrace.TRANSMIT, trigger: str = ""
) -> Iterator[_others.Calls]:
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


def _stack_traces() -> list[list[str]]:
    """The functions of each stack trace in the trace, innermost first."""
    _, *traces = (TRACING / "trace").read_text().split("<stack trace>")
    return [re.findall(r"^ => (\w+)", text, re.MULTILINE) for text in traces]


@contextlib.contextmanager
def _tracer(name: str) -> Iterator[_others.Calls]:
    """The function or the function_graph tracer, on that function alone."""
    (TRACING / "set_ftrace_filter").write_text(_ftrace.TRANSMIT)
    (TRACING / "trace").write_text("")
    (TRACING / "current_tracer").write_text(name)
    try:
        # "tun_net_xmit <-caller", "tun_net_xmit [tun]();" or, built in, "tun_net_xmit();"
        yield lambda: sum(_count_in_trace(f" {_ftrace.TRANSMIT}{end}") for end in " (")
    finally:
        (TRACING / "current_tracer").write_text("nop")
        (TRACING / "set_ftrace_filter").write_text("")


def _require_kprobes(env: Env) -> None:
    mount_tracefs()
    if not os.path.exists(TRACING / "kprobe_events"):
        env.skip("this kernel has no kprobe events")


@scenario(deadline=600)
def probes_and_tracers_come_first_or_second(env: Env) -> None:
    _require_kprobes(env)
    others: dict[str, _others.Other] = {
        "kprobe": lambda: _probe("p"),
        "kretprobe": lambda: _probe("r"),
        "function": lambda: _tracer("function"),
        "function_graph": lambda: _tracer("function_graph"),
    }
    for name, other in others.items():
        # A direct call that is not shared hides the function from this tracer.
        hides = name == "function_graph" and not _patch.shares(env)
        with case(env, name):
            parameters = ["direct_call=0"] if hides else []
            _others.comes_first_or_second(env, other, *parameters)


@scenario
def stack_trace_below_the_hook_reaches_the_sender(env: Env) -> None:
    """As a profiler, or the kernel itself when it warns, takes it."""
    _require_kprobes(env)
    for direct in (0, 1):
        env.load(f"direct_call={direct}")
        sink(env, ring=100)
        _ftrace.settles_on_direct_call(env)
        with _probe("p", "sluice_queue_check", "stacktrace"):
            send(200)
            traces = _stack_traces()
        whole = [
            one
            for one in traces
            if {"sluice_queue_check", _ftrace.TRANSMIT, "udp_sendmsg"} <= {*one}
        ]
        assert whole, (direct, traces[:3])
        env.clean_up()
