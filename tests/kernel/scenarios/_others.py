# SPDX-License-Identifier: GPL-2.0-or-later
"""Another user of the function that sluice hooks: both must see the packets."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Callable

from lab.guest.devices import Reader
from lab.guest.scenarios import Env
from tests.kernel.scenarios import _ftrace
from tests.kernel.scenarios._traffic import assert_flows, counters, read_queue, send, sink

PACKETS = 200
Calls = Callable[[], int]  # how many calls the other user has seen
# Attaches it, and detaches it at the end.
Other = Callable[[], AbstractContextManager[Calls]]


def load(env: Env, *parameters: str) -> Reader:
    """Loads sluice, and opens a device that is read."""
    env.load("stall_ms=60000", *parameters)
    reader = sink(env, ring=PACKETS // 2)
    _ftrace.settles_on_direct_call(env)
    return reader


def assert_stops_and_flows(env: Env, reader: Reader) -> None:
    """sluice stops the queue before the ring is full, and wakes it."""
    reader.pause()
    send(PACKETS)
    assert read_queue().state == "stopped", read_queue()
    assert counters().lost_at_ring == 0
    reader.resume()
    assert_flows(env)


def assert_both_see_packets(env: Env, reader: Reader, calls: Calls) -> None:
    before = counters().read
    assert_stops_and_flows(env, reader)
    read, seen = counters().read - before, calls()
    assert seen >= read > PACKETS, f"the other user saw {seen} calls for {read} packets"


def comes_first_or_second(env: Env, other: Other, *parameters: str) -> None:
    """The other user attaches before sluice is loaded, leaves, and attaches again."""
    with other() as calls:
        reader = load(env, *parameters)
        assert_both_see_packets(env, reader, calls)
    assert_stops_and_flows(env, reader)
    with other() as calls:
        assert_both_see_packets(env, reader, calls)
    assert_stops_and_flows(env, reader)
