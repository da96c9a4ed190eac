# SPDX-License-Identifier: GPL-2.0-or-later
"""vhost-net reads the ring, as for a virtual machine."""

from __future__ import annotations

import os
import sys

from lab.guest import tasks
from lab.guest.scenarios import Env, scenario
from lab.processes import running
from tests.kernel.scenarios import _traffic as net


@scenario
def vhost_sockets_lose_nothing(env: Env) -> None:
    env.load("stall_ms=60000")
    reader = net.sink(env, ring=100, vhost=True)
    now = net.assert_flood_loses_nothing(env, reader, senders=4)

    def all_handed_on() -> bool:
        (count,) = reader.pause()
        reader.resume()
        return count["read"] == now.read

    env.wait_for(all_handed_on, f"the guest gets {now.read} packets")


@scenario
def vhost_four_direct_senders_lose_nothing(env: Env) -> str:
    return net.assert_direct_senders_lose_nothing(env, 4, packets=60_000, vhost=True)


@scenario
def vhost_paused_guest_stalls_and_resumes(env: Env) -> None:
    """The guest returns no buffers, so vhost-net stops reading."""
    env.load()
    reader = net.sink(env, ring=50, paused=True, vhost=True)
    with net.Flood(senders=2) as senders:
        env.wait_for(lambda: net.read_queue().state == "stalled", "the stall")
        senders.wait_for_more(env, 2000, "senders go on")
        senders.end()
    reader.resume()
    net.assert_lossless_again(env)


# Takes its CPU from all that is not real-time, for 0.4 s of each 0.5 s.
HOG = """
import os, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print("runs", flush=True)
while True:
    end = time.monotonic() + 0.4
    while time.monotonic() < end:
        pass
    time.sleep(0.1)
"""


@scenario(on="newest-native")
def vhost_worker_that_is_descheduled_holds_senders_shortly(env: Env) -> str:
    """Its thread shares a CPU with a real-time process; all others have another CPU."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        env.skip("the machine has one CPU")
    env.load()
    reader = net.sink(env, ring=500, vhost=True)
    tasks.pin([os.getpid(), *tasks.read_tasks(reader.pid, vhost=False)], cpus[0])
    with running([sys.executable, "-c", HOG]) as hog:
        tasks.pin([hog.pid, *tasks.read_tasks(reader.pid, vhost=True)], cpus[1])
        assert hog.stdout and hog.stdout.readline()
        result = net.assert_senders_are_held_shortly(env, reader)
    if env.patience > 2 and not net.read_queue().stalls:
        env.skip("senders are too slow here to fill the ring while the worker waits")
    assert net.read_queue().stalls > 0, "the worker was never descheduled"
    return result


@scenario
def vhost_unload_under_traffic_loses_no_queue(env: Env) -> None:
    reader = net.sink(env, ring=100, vhost=True)
    with net.Flood(senders=2) as senders:
        for _ in range(3):
            env.load()
            net.wait_for_stops(env, reader, more_than=20)
            env.run("rmmod", "sluice")
        sent = senders.end()
    now = net.wait_until_read(env, sent)
    assert net.gone(now) == sent, (now, sent)
    net.assert_flows(env)
