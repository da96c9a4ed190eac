# SPDX-License-Identifier: GPL-2.0-or-later
"""Netlink requests that are wrong or random, and the answers to them."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Callable

from sluice import netlink
from sluice.netlink import Client

REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
NESTED = 0x8000
UNKNOWN = 99  # a number no attribute set has
NUMBERS = (*range(18), UNKNOWN, 0x3FFF)
HEADER = struct.Struct("=IHHII")
_NETLINK, _NETLINK_GENERIC, _SOL_NETLINK = socket.AF_NETLINK, 16, 270
_EXT_ACK, _CAP_ACK, _ACK_TLVS = 11, 10, 0x200
_ERROR, _DONE = 2, 3
_ATTR_MSG = 1
_ANSWER_MAX = 1 << 16


def attr(number: int, payload: bytes) -> bytes:
    length = 4 + len(payload)
    return struct.pack("=HH", length, number) + payload + b"\0" * (-length % 4)


def u8(value: int) -> bytes:
    return struct.pack("=B", value)


def u32(value: int) -> bytes:
    return struct.pack("=I", value)


# The settings of device-set: payloads that are valid, and those out of range.
SETTINGS: dict[int, tuple[list[bytes], list[bytes]]] = {
    3: ([u8(0), u8(1)], [u8(2), u8(255)]),  # on
    7: ([u32(1), u32(60000)], [u32(0), u32(60001), u32(1 << 31)]),  # stall-ms
    8: ([u32(0), u32(95)], [u32(96), u32(0xFFFFFFFF)]),  # low-percent
    9: ([u32(0), u32(0xFFFFFFFF)], []),  # limit
    12: ([u32(0), u32(100000)], [u32(100001), u32(0xFFFFFFFF)]),  # target-us
}


def parse_attrs(data: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 4 <= len(data):
        length, number = struct.unpack_from("=HH", data, at)
        found[number] = data[at + 4 : at + length]
        at += (max(length, 4) + 3) & ~3
    return found


@dataclass(frozen=True)
class Answer:
    """The answer to one request: an errno, 0 if none, and its message."""

    code: int
    text: str
    replies: tuple[bytes, ...] = ()  # the attributes of each


def messages(datagram: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The type, the flags and the rest of each."""
    at = 0
    while at + HEADER.size <= len(datagram):
        length, kind, flags, _, _ = HEADER.unpack_from(datagram, at)
        yield kind, flags, datagram[at + HEADER.size : at + length]
        at += (length + 3) & ~3


def parse_answer(datagrams: Sequence[bytes]) -> Answer:
    code, text, replies = 0, "", []
    for datagram in datagrams:
        for kind, flags, message in messages(datagram):
            if kind in (_ERROR, _DONE):
                code = -struct.unpack_from("=i", message)[0]
                told = message[4 + (HEADER.size if kind == _ERROR else 0) :]
                said = parse_attrs(told).get(_ATTR_MSG, b"")
                text = said.rstrip(b"\0").decode() if flags & _ACK_TLVS else ""
            else:
                replies.append(message[4:])
    return Answer(code, text, tuple(replies))


class Asker:
    """A raw socket to the module's family."""

    def __init__(self) -> None:
        with Client() as client:
            self.family = client.family
        self._socket = socket.socket(_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC)
        for option in (_EXT_ACK, _CAP_ACK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def message(self, flags: int, cmd: int, attrs: bytes, version: int = 1) -> bytes:
        body = struct.pack("=BBH", cmd, version, 0) + attrs
        length = HEADER.size + len(body)
        return HEADER.pack(length, self.family, flags, 1, 0) + body

    def send(self, datagram: bytes) -> Answer:
        """The kernel handles a request before send() returns; a dump goes on while its
        answers are read."""
        self._socket.send(datagram)
        answers = []
        while True:
            try:
                answers.append(self._socket.recv(_ANSWER_MAX, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return parse_answer(answers)

    def leave_dump(self, cmd: int) -> None:
        """Ask for a dump that nobody reads."""
        self._socket.send(self.message(REQUEST | DUMP, cmd, b""))

    def flags_of_dump(self, cmd: int, after_first: Callable[[], object]) -> list[int]:
        """Of all messages of a dump; something happens once the first are read."""
        self._socket.send(self.message(REQUEST | DUMP, cmd, b""))
        told = list(messages(self._socket.recv(_ANSWER_MAX)))
        after_first()
        while told[-1][0] != _DONE:
            told += messages(self._socket.recv(_ANSWER_MAX))
        return [flags for _, flags, _ in told]

    def ask(self, flags: int, cmd: int, attrs: bytes) -> Answer:
        return self.send(self.message(flags, cmd, attrs))

    def settings(self, ifindex: int) -> dict[int, bytes]:
        """The settings of a device, by their attribute numbers."""
        answer = self.ask(REQUEST, netlink.DEVICE_GET, attr(1, u32(ifindex)))
        (reply,) = answer.replies
        attrs = parse_attrs(reply)
        return {number: attrs[number] for number in SETTINGS}


def wrong_attrs(number: int, right: bytes) -> Iterator[tuple[str, bytes]]:
    """An attribute in every wrong form."""
    yield "empty", attr(number, b"")
    yield "too short", attr(number, right[:-1])
    for more in (1, 4, 2000):
        yield f"{more} too long", attr(number, right + b"\0" * more)
    yield "nested", attr(number | NESTED, right)
    yield "nest of itself", attr(number | NESTED, attr(number, right))
    yield "longer than the message", struct.pack("=HH", 40, number) + right
    yield "shorter than its header", struct.pack("=HH", 3, number) + right


def _random_attr(choose: random.Random, depth: int = 0) -> bytes:
    number = choose.choice((1, *SETTINGS, *SETTINGS, *SETTINGS, *NUMBERS))
    if depth < 20 and choose.random() < 0.2:
        count = choose.randrange(3)
        payload = b"".join(_random_attr(choose, depth + 1) for _ in range(count))
    elif number in SETTINGS and choose.random() < 0.7:
        right, wrong = SETTINGS[number]
        payload = choose.choice(right + wrong)
    else:
        size = choose.choice((0, 1, 3, 4, 4, 4, 5, 8, 15, 256, 4000))
        payload = bytes(choose.randrange(256) for _ in range(min(size, 8)))
        payload += b"\xff" * (size - len(payload))
    made = attr(number | choose.choice((0, 0, 0, 0x4000, NESTED)), payload)
    if choose.random() < 0.1:  # a wrong length
        made = struct.pack("=H", choose.randrange(1 << 16)) + made[2:]
    return made


def _random_message(choose: random.Random, asker: Asker, ifindex: int) -> bytes:
    attrs = [_random_attr(choose) for _ in range(choose.randrange(6))]
    if choose.random() < 0.7:
        attrs.insert(choose.randrange(len(attrs) + 1), attr(1, u32(ifindex)))
    if attrs and choose.random() < 0.2:
        attrs.append(choose.choice(attrs))  # twice
    flags = choose.choice((REQUEST, REQUEST | ACK, REQUEST | DUMP, 0, 0xFFFF))
    cmd = choose.choice((1, 2, 2, 2, 3, 4, 0, 5, 255))
    version = choose.choice((1, 1, 1, 0, 2, 255))
    return asker.message(flags, cmd, b"".join(attrs), version)


def _cut(choose: random.Random, message: bytes) -> bytes:
    """Its first part, with the right length in its header or that of the whole."""
    part = message[: choose.randrange(HEADER.size, len(message) + 1)]
    if choose.random() < 0.5:
        part = struct.pack("=I", len(part)) + part[4:]
    return part


def random_datagram(choose: random.Random, asker: Asker, ifindex: int) -> bytes:
    """One request or several; some are truncated."""
    datagram = b""
    for _ in range(choose.choice((1, 1, 1, 1, 3))):
        message = _random_message(choose, asker, ifindex)
        change: Callable[[random.Random, bytes], bytes] = _cut
        datagram += change(choose, message) if choose.random() < 0.15 else message
        datagram += b"\0" * (-len(datagram) % 4)
    return datagram
