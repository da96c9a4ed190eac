# SPDX-License-Identifier: GPL-2.0-or-later
"""XDP_REDIRECT puts frames into a ring without the transmit function, where the hook
does not see them."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from collections.abc import Iterator

from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._bpf import redirected
from tests.kernel.scenarios._frames import FRAME, is_frame
from tests.kernel.scenarios._links import ENTRY, SOURCE, veth_pair
from tests.kernel.scenarios._tap import SLOWEST, Readers, Tap, tap
from tests.kernel.scenarios._threads import Repeated


@contextlib.contextmanager
def _redirecting(burst: int, pause: float) -> Iterator[None]:
    """Sends so many frames at once into the veth pair, again and again."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((SOURCE, 0))

        def send() -> None:
            for _ in range(burst):
                with contextlib.suppress(OSError):  # ENOBUFS: not sent
                    out.send(FRAME)

        with Repeated(send, rest=pause):
            yield


def _redirected_tap(env: Env, ring: int) -> tuple[Tap, Counter[str]]:
    """What its reader reads is counted: packets of the qdisc, and those of XDP."""
    device = env.enter(tap(ring=ring))
    veth_pair(env)
    try:
        env.enter(redirected(socket.if_nametoindex(ENTRY), net.ifindex()))
    except OSError as error:
        env.skip(f"this kernel's veth takes no XDP program ({error.strerror})")
    seen: Counter[str] = Counter()
    device.on_packet = lambda one: seen.update(["xdp" if is_frame(one) else "qdisc"])
    return device, seen


@scenario
def xdp_below_the_headroom_costs_the_qdisc_nothing(env: Env) -> None:
    """A few frames fit into the headroom."""
    env.load("stall_ms=60000")
    device, seen = _redirected_tap(env, ring=500)
    with Readers(device) as readers:
        with _redirecting(burst=2, pause=0.01), net.Flood(senders=2) as senders:
            net.wait_for_stops(env, readers, more_than=5)
            env.wait_for(lambda: seen["xdp"] > 100, "redirected frames")
            sent = senders.end()
        net.wait_until_empty(env)
    now = net.counters()
    assert seen["qdisc"] + now.qdisc_drops == sent, (seen, now, sent)


@scenario(deadline=120, on="newest-native")
def xdp_flood_is_counted_and_blocks_no_sender(env: Env) -> None:
    """While the frames fill the ring, sockets send as without sluice, and what is lost
    of either is counted in tx_dropped. Afterwards the sockets lose nothing."""
    env.load("stall_ms=2000")
    device, seen = _redirected_tap(env, ring=100)
    with Readers(device) as readers:
        readers.rest = SLOWEST
        with net.Flood(senders=2) as senders:
            with _redirecting(burst=200, pause=0):
                env.wait_for(
                    lambda: net.read_queue().stalls > 1, "stalls in a crowd", seconds=30
                )
                senders.wait_for_more(env, 1500, "what the sockets send")
                env.wait_for(lambda: seen["xdp"] > 100, "redirected frames")
            net.wait_for_stops(env, readers, more_than=net.read_stops() + 2)
            lost = net.counters().lost_at_ring
            net.wait_for_stops(env, readers, more_than=net.read_stops() + 5)
            assert net.counters().lost_at_ring == lost
            sent = senders.end()
        net.wait_until_empty(env)
    now = net.counters()
    lost = sent - seen["qdisc"] - now.qdisc_drops
    assert 0 <= lost <= now.lost_at_ring, (lost, now)
    assert now.read == sum(seen.values()), (now, seen)
