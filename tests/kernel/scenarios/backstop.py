# SPDX-License-Identifier: GPL-2.0-or-later
"""The backstop reviews a queue whose timer was lost."""

from __future__ import annotations

from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._ftrace import calls_lost


@scenario
def lost_timer_is_replaced_by_the_backstop(env: Env) -> str:
    env.load()
    net.sink(env, ring=100)
    with net.flood(senders=1) as senders:
        with calls_lost(env, "timer_expired"):
            env.wait_for(lambda: net.read_queue().rescued > 0, "a rescue", 30)
            senders.wait_for_more(env, 1, "the sender goes on")
        senders.end()
    queue = net.read_queue()
    net.assert_lossless_again(env)
    return f"{queue.rescued} of {queue.stops} stops rescued"


@scenario
def no_timer_is_lost_in_normal_use(env: Env) -> None:
    env.load()
    reader = net.sink(env, ring=100)
    reader.slow_down()
    with net.flood(senders=2) as senders:
        net.wait_for_stops(env, reader, more_than=50)
        senders.end()
    # On a busy host a virtual CPU may stand still for a second.
    assert net.read_queue().rescued <= 1, net.read_queue()
