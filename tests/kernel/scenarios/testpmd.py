# SPDX-License-Identifier: GPL-2.0-or-later
"""DPDK's testpmd receives from vhost-net, as a virtual machine does.

Only roots with the package dpdk-dev have it: see tests/kernel/test_testpmd.py.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.guest.devices import HERE, THERE, attach, silence_first_netns
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._traffic import (
    flood,
    pktgen,
    read_queue,
    read_stops,
    wait_until_read,
)

PROGRAM = "dpdk-testpmd"
HUGE_PAGES = 160  # of 2 MB
NR_HUGE = Path("/proc/sys/vm/nr_hugepages")
TOTAL = re.compile(r"RX-packets:\s*(\d+)\s+RX-dropped:\s*(\d+)")


def parse_totals(text: str) -> dict[str, int]:
    """Packets that testpmd received, from the last statistics it prints."""
    got, dropped = TOTAL.findall(text)[-1]
    return {"got": int(got), "dropped": int(dropped)}


class Testpmd:
    """Runs until end(), which returns its counts."""

    def __init__(self, mode: str, queues: int) -> None:
        device = f"virtio_user0,path=/dev/vhost-net,iface={HERE.name}"
        self._process = subprocess.Popen(
            [
                *("stdbuf", "-oL", PROGRAM),  # its output comes line by line
                *("--lcores", "0,1", "--no-pci", "--in-memory"),
                *("--no-telemetry", f"--vdev={device},queues={queues}", "--"),
                *(f"--forward-mode={mode}", "--total-num-mbufs=16384"),
                *(f"--rxq={queues}", f"--txq={queues}"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._said = ""

    def wait_started(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said += line
            if "Press enter to exit" in line:
                return
        raise AssertionError(f"{PROGRAM} ended: {self._said[-500:]}")

    def end(self) -> dict[str, int]:
        return parse_totals(self._process.communicate("\n", timeout=30)[0])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def _testpmd(env: Env, mode: str, queues: int = 1) -> Iterator[Testpmd]:
    """HERE, made and read by testpmd."""
    if shutil.which(PROGRAM) is None:
        env.skip(f"{PROGRAM} is not in this root; make test-all has one with it")
    NR_HUGE.write_text(f"{HUGE_PAGES}\n")
    if int(NR_HUGE.read_text()) < HUGE_PAGES:
        env.skip(f"this guest has no room for {HUGE_PAGES} huge pages")
    env.run("modprobe", "vhost_net")
    silence_first_netns()
    running = Testpmd(mode, queues)
    try:
        running.wait_started()
        attach(HERE, THERE, qdisc="fq_codel" if queues == 1 else "mq", ring=500)
        yield running
    finally:
        running.kill()
        NR_HUGE.write_text("0\n")


def _sockets_lose_nothing(env: Env, mode: str, queues: int = 1) -> None:
    env.load("stall_ms=60000")
    testpmd = env.enter(_testpmd(env, mode, queues))
    with flood(senders=4, flows=queues) as senders:
        env.wait_for(lambda: read_stops() > 5, "stops", 30)
        sent = senders.end()
    now = wait_until_read(env, sent)
    assert now.lost_at_ring == 0 and now.read + now.qdisc_drops == sent, (now, sent)
    totals = testpmd.end()
    assert sum(totals.values()) == now.read, (totals, now)


@scenario(deadline=120, often=False)
def testpmd_rxonly_loses_nothing(env: Env) -> None:
    _sockets_lose_nothing(env, "rxonly")


@scenario(deadline=120, often=False)
def testpmd_with_four_queues_loses_nothing(env: Env) -> None:
    _sockets_lose_nothing(env, "rxonly", queues=4)


@scenario(deadline=120, often=False)
def testpmd_that_sends_back_loses_nothing(env: Env) -> None:
    _sockets_lose_nothing(env, "io")


@scenario(deadline=120, often=False)
def testpmd_with_two_direct_senders_loses_nothing(env: Env) -> None:
    env.load("stall_ms=60000")
    env.enter(_testpmd(env, "rxonly"))
    sent = sum(pktgen(env, 2, packets=30_000))
    now = wait_until_read(env, sent)
    assert (now.read, now.lost_at_ring) == (sent, 0), (now, sent)
    assert read_queue().stops > 0, "the ring never filled: proves nothing"
