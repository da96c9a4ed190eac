# SPDX-License-Identifier: GPL-2.0-or-later
"""A fixed amount of data to several IPv6 groups at once: when is all of it there?

The transfer that never ended with the queue of upstream's first attempt stopped.
Several threads send through an OpenVPN tunnel, each to a group of its own, ask
what is missing and send that again: what a ring loses costs time. OpenVPN between
two peers carries every packet; the other programs need a configuration for each group.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

from lab.guest.devices import FAR, NEAR, Device, run_tool
from lab.guest.program import SO_RCVBUFFORCE, open_socket
from lab.row import WorkloadError

GROUPS, PACKETS = 4, 600  # threads, and packets for each
PACKET_BYTES = 1000
DEADLINE_SECONDS = 60.0
ANSWER_SECONDS = 1.0  # after that it asks again
NET = "ff15::9200:"
PORT = 9200  # of the first group; each further group has the next
ADDRESSES = {NEAR.name: "fd91::1", FAR.name: "fd91::2"}

# The number of a packet and 0; QUESTION and its serial; in an answer that serial, and
# how many numbers follow.
HEAD = struct.Struct("!II")
QUESTION = 0xFFFFFFFF
MISSING_MAX = 200  # numbers in an answer


def _enable_ipv6(device: Device) -> None:
    switch = f"echo 0 >/proc/sys/net/ipv6/conf/{device.name}/disable_ipv6"
    run_tool(device.command("sh", "-c", switch))
    lines = [
        f"address replace {ADDRESSES[device.name]}/64 dev {device.name} nodad",
        f"route replace multicast {NET}0/112 dev {device.name} table local",
    ]
    batch = ["ip", "-6", "-n", str(device.netns), "-batch", "-"]
    run_tool(batch, "\n".join(lines) + "\n")


def _open(device: Device) -> Tuple[socket.socket, bytes]:
    """A socket, and the device's index as its options take it."""
    show = device.command("cat", f"/sys/class/net/{device.name}/ifindex")
    index = struct.pack("@I", int(run_tool(show)))
    kind = (socket.AF_INET6, socket.SOCK_DGRAM)
    return open_socket(device, *kind, DEADLINE_SECONDS), index


class Group:
    """Its receiver at FAR, and its sender at NEAR."""

    def __init__(self, number: int) -> None:
        self._address = (f"{NET}{number}", PORT + number)
        self._missing = set(range(PACKETS))  # at the receiver
        self.sent = self.asked = 0
        self._joined, index = _open(FAR)
        member = socket.inet_pton(socket.AF_INET6, self._address[0]) + index
        self._joined.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        self._joined.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, member)
        self._joined.bind(self._address)
        self._out, index = _open(NEAR)
        self._out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)

    def fileno(self) -> int:
        """Of the receiver's socket."""
        return self._joined.fileno()

    def receive(self) -> None:
        """One packet: notes data, answers a question."""
        packet, sender = self._joined.recvfrom(2 * PACKET_BYTES)
        number, serial = HEAD.unpack_from(packet)
        if number != QUESTION:
            self._missing.discard(number)
            return
        some = sorted(self._missing)[:MISSING_MAX]
        answer = struct.pack(f"!{2 + len(some)}I", serial, len(some), *some)
        # If it is lost, the sender asks again.
        self._joined.sendto(answer.ljust(PACKET_BYTES, b"\0"), sender)

    def _send(self, number: int, serial: int = 0) -> None:
        packet = HEAD.pack(number, serial).ljust(PACKET_BYTES, b"\0")
        self._out.sendto(packet, self._address)
        self.sent += 1

    def _ask(self) -> Optional[Sequence[int]]:
        """What is missing; None if no answer comes in time."""
        self.asked += 1
        self._send(QUESTION, self.asked)
        until = time.monotonic() + ANSWER_SECONDS
        while (left := until - time.monotonic()) > 0:
            if select.select([self._out], [], [], left)[0]:
                answer = self._out.recv(2 * PACKET_BYTES)
                serial, count = HEAD.unpack_from(answer)
                if serial == self.asked:
                    return struct.unpack_from(f"!{count}I", answer, HEAD.size)
        return None

    def send_all(self) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        missing: Optional[Sequence[int]] = range(PACKETS)
        while missing is None or missing:
            if time.monotonic() > deadline:
                raise WorkloadError(
                    f"multicast: not all is there after {DEADLINE_SECONDS:.0f} s"
                )
            for number in missing or ():
                self._send(number)
            missing = self._ask()


@contextlib.contextmanager
def _receiving(groups: Sequence[Group]) -> Iterator[None]:
    ended = threading.Event()

    def receive() -> None:
        while not ended.is_set():
            for group in select.select(groups, [], [], 0.1)[0]:
                group.receive()

    with ThreadPoolExecutor() as pool:
        received = pool.submit(receive)
        try:
            yield
        finally:
            ended.set()
        received.result()


def transfer() -> Tuple[float, Dict[str, Any]]:
    """Mbit/s, and what else it tells."""
    for device in (NEAR, FAR):
        _enable_ipv6(device)
    groups = [Group(number) for number in range(GROUPS)]
    with _receiving(groups), ThreadPoolExecutor(GROUPS) as pool:
        began = time.monotonic()
        list(pool.map(Group.send_all, groups))
        took = time.monotonic() - began
    return GROUPS * PACKETS * PACKET_BYTES * 8 / took / 1e6, {
        "seconds_until_all": round(took, 3),
        "packets_sent": sum(group.sent for group in groups),
        "questions": sum(group.asked for group in groups),
    }
