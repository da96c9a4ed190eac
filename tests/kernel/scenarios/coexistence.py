# SPDX-License-Identifier: GPL-2.0-or-later
"""Other users of the function that sluice hooks, attached before sluice and after."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios import _ftrace, _others
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
def _probe(kind: str) -> Iterator[_others.Calls]:
    """A kprobe (p) or a kretprobe (r), which writes each call to the trace."""
    _append("kprobe_events", f"{kind}:sluice_other {_ftrace.TRANSMIT}\n")
    enable = TRACING / "events/kprobes/sluice_other/enable"
    (TRACING / "trace").write_text("")
    enable.write_text("1")
    try:
        yield lambda: _count_in_trace("sluice_other: ")
    finally:
        enable.write_text("0")
        _append("kprobe_events", "-:sluice_other\n")


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


def _coexists(env: Env, other: _others.Other, *parameters: str) -> None:
    mount_tracefs()
    if not os.path.exists(TRACING / "kprobe_events"):
        env.skip("this kernel has no kprobe events")
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
    """On 5.10 a direct call hides the function from this tracer."""
    hidden = os.uname().release.startswith("5.10.")
    parameters = ("direct_call=0",) if hidden else ()
    _coexists(env, lambda: _tracer("function_graph"), *parameters)


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
