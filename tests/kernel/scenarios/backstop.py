# SPDX-License-Identifier: GPL-2.0-or-later
"""The backstop reviews a queue whose timer was lost."""

from __future__ import annotations

from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._ftrace import calls_lost
from tests.kernel.scenarios._traffic import (
    assert_lossless_again,
    flood,
    read_queue,
    sink,
    wait_for_stops,
)


@scenario
def lost_timer_is_replaced_by_the_backstop(env: Env) -> str:
    env.load()
    sink(env, ring=100)
    with flood(senders=1) as senders:
        with calls_lost(env, "timer_expired"):
            env.wait_for(lambda: read_queue().rescued > 0, "a rescue", 30)
            senders.wait_for_more(env, 1, "the sender goes on")
        senders.end()
    queue = read_queue()
    assert_lossless_again(env)
    return f"{queue.rescued} of {queue.stops} stops rescued"


@scenario
def no_timer_is_lost_in_normal_use(env: Env) -> None:
    env.load()
    reader = sink(env, ring=100)
    reader.slow_down()
    with flood(senders=2) as senders:
        wait_for_stops(env, reader, more_than=50)
        senders.end()
    # On a busy host a virtual CPU may stand still for a second.
    assert read_queue().rescued <= 1, read_queue()
