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
    assert_flows,
    counters,
    read_queue,
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


def _coexists(env: Env, other: _others.Other, *parameters: str) -> None:
    _require_kprobes(env)
    _others.comes_first_or_second(env, other, *parameters)


@scenario(deadline=180)
def kprobe_comes_first_or_second(env: Env) -> None:
    _coexists(env, lambda: _probe("p"))


@scenario(deadline=180)
def kretprobe_comes_first_or_second(env: Env) -> None:
    _coexists(env, lambda: _probe("r"))


@scenario(deadline=180)
def function_tracer_comes_first_or_second(env: Env) -> None:
    _coexists(env, lambda: _tracer("function"))


@scenario(deadline=180)
def function_graph_tracer_comes_first_or_second(env: Env) -> None:
    """A direct call that is not shared hides the function from this tracer."""
    shared = _patch.shares(env)
    parameters = () if shared else ("direct_call=0",)
    _coexists(env, lambda: _tracer("function_graph"), *parameters)


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


@scenario
def packets_that_bypass_the_hook_are_not_counted_as_checked(env: Env) -> None:
    """As with a live patch without ftrace: the module's count of checks stays."""
    env.load()
    sink(env, ring=100)
    before = read_queue().checks
    assert_flows(env)
    send(200)
    assert read_queue().checks > before, read_queue()
    with _ftrace.calls_lost(env, "sluice_queue_check"):
        before, read = read_queue().checks, counters().read
        send(200)
        assert_flows(env)
        assert counters().read > read + 100, "no packet passed"
        assert read_queue().checks == before, read_queue()
    assert_flows(env)
