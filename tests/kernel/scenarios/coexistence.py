# SPDX-License-Identifier: GPL-2.0-or-later
"""Other users of the function that sluice hooks, attached before sluice and after."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from lab.guest.scenarios import Env, scenario
from lab.processes import running
from tests.kernel.scenarios import _ftrace, _others, _patch
from tests.kernel.scenarios._ftrace import TRACING, mount_tracefs
from tests.kernel.scenarios._traffic import case, send, sink


def _stack_traces() -> list[list[str]]:
    """The functions of each stack trace in the trace, innermost first."""
    _, *traces = (TRACING / "trace").read_text().split("<stack trace>")
    return [re.findall(r"^ => (\w+)", text, re.MULTILINE) for text in traces]


def _require_kprobes(env: Env) -> None:
    mount_tracefs()
    if not os.path.exists(TRACING / "kprobe_events"):
        env.skip("this kernel has no kprobe events")


@contextlib.contextmanager
def _graph_tracer() -> Iterator[_others.Calls]:
    """The function graph tracer, while no CPU is idle.

    That of RHEL 10.0 misses what interrupts call on a CPU that was idle, for its kernel
    makes no shadow stacks for idle tasks.
    """
    spin = ["chrt", "--idle", "0", "sh", "-c", "while :; do :; done"]
    with contextlib.ExitStack() as spinning:
        for cpu in os.sched_getaffinity(0):
            spinning.enter_context(running(["taskset", "--cpu-list", f"{cpu}", *spin]))
        yield spinning.enter_context(_ftrace.tracer("function_graph"))


@scenario(deadline=600)
def probes_and_tracers_come_first_or_second(env: Env) -> None:
    _require_kprobes(env)
    others: dict[str, _others.Other] = {
        "kprobe": lambda: _ftrace.probe("p"),
        "kretprobe": lambda: _ftrace.probe("r"),
        "function": lambda: _ftrace.tracer("function"),
        "function_graph": _graph_tracer,
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
        with _ftrace.probe("p", "sluice_queue_check", "stacktrace"):
            send(200)
            traces = _stack_traces()
        whole = [
            one
            for one in traces
            if {"sluice_queue_check", _ftrace.TRANSMIT, "udp_sendmsg"} <= {*one}
        ]
        assert whole, (direct, traces[:3])
        env.clean_up()
