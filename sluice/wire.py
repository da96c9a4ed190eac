# SPDX-License-Identifier: GPL-2.0-or-later
"""A small netlink client: messages, attributes and sockets, as netlink(7) has them.

A library would do the same, but takes longer to import than the command may take.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from sluice.errors import NetlinkError

REQUEST, MULTI, ACK = 0x1, 0x2, 0x4
DUMP_INTR, CAPPED, ACK_TLVS = 0x10, 0x100, 0x200
REPLACE, DUMP, CREATE = 0x100, 0x300, 0x400
ERROR, DONE = 2, 3
NESTED, KIND_MASK = 0x8000, 0x3FFF
ERROR_MESSAGE = 1  # NLMSGERR_ATTR_MSG
GENERIC, ROUTE = 16, 0  # protocols
SOL_NETLINK, ADD_MEMBERSHIP, CAP_ACK, EXT_ACK = 270, 1, 10, 11
ANSWER_MAX = 1 << 16  # the kernel's messages have at most half of that
DUMP_TRIES = 20

_HEADER = struct.Struct("=IHHII")  # length, kind, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # length, kind
_GENERIC = struct.Struct("=BBxx")  # command, version


class Message(NamedTuple):
    kind: int
    flags: int
    sequence: int
    body: bytes


def _aligned(length: int) -> int:
    return length + 3 & ~3


def attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(_aligned(length) - length)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and value of each attribute; what is cut off is left out."""
    at, end = 0, len(data)
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if not _ATTRIBUTE.size <= length <= end - at:
            return
        yield kind & KIND_MASK, data[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)


def number(value: bytes) -> int:
    return int.from_bytes(value, sys.byteorder)


def text(value: bytes) -> str:
    """A string, as Python decodes file names: it need not be UTF-8."""
    return os.fsdecode(value.partition(b"\0")[0])


def messages(data: bytes) -> Iterator[Message]:
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        body = data[at + _HEADER.size : at + length]
        yield Message(kind, flags, sequence, body)
        at += _aligned(length)


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body


def _check(one: Message) -> None:
    """Raise an error if this ends a request that was refused."""
    if len(one.body) < 4:
        return
    (code,) = struct.unpack_from("=i", one.body)
    if code >= 0:
        return
    rest = one.body[4:]
    if one.kind == ERROR:
        # The request follows, or only its header.
        length = _HEADER.size if one.flags & CAPPED else _HEADER.unpack_from(rest)[0]
        rest = rest[_aligned(length) :]
    said = dict(attributes(rest)) if one.flags & ACK_TLVS else {}
    raise NetlinkError(-code, text(said.get(ERROR_MESSAGE, b"")))


class Socket:
    """A socket to the kernel, in the network namespace where it was made."""

    def __init__(self, protocol: int) -> None:
        how = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, how, protocol)
        for option in (CAP_ACK, EXT_ACK):
            self._socket.setsockopt(SOL_NETLINK, option, 1)
        self._socket.bind((0, 0))
        self._sequence = 0

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def join(self, group: int) -> None:
        """Receive what is sent to a multicast group, with room for bursts."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, group)

    def receive(self) -> list[Message]:
        """The messages that come next."""
        return list(messages(self._socket.recv(ANSWER_MAX)))

    def _ask(self, kind: int, flags: int, body: bytes) -> tuple[list[bytes], bool]:
        """The answer, and whether it was interrupted."""
        self._sequence += 1
        flags |= REQUEST if flags & DUMP == DUMP else REQUEST | ACK
        self._socket.send(message(kind, flags, self._sequence, body))
        answer: list[bytes] = []
        interrupted = False
        while True:
            for one in self.receive():
                if one.sequence != self._sequence:
                    continue  # the rest of an answer that nobody waits for, or an event
                interrupted |= bool(one.flags & DUMP_INTR)
                if one.kind in (ERROR, DONE):
                    _check(one)
                    return answer, interrupted
                answer.append(one.body)

    def request(self, kind: int, flags: int, body: bytes) -> list[bytes]:
        """The answer's messages. A dump is repeated if devices appeared or vanished
        meanwhile, so that one may be missing or there twice."""
        for _ in range(DUMP_TRIES):
            answer, interrupted = self._ask(kind, flags, body)
            if not interrupted:
                return answer
            time.sleep(0.02)
        raise NetlinkError(errno.EINTR, "devices come and go faster than they are read")


CONTROL, GET_FAMILY = 16, 3
FAMILY_ID, FAMILY_NAME, GROUPS = 1, 2, 7
GROUP_NAME, GROUP_ID = 1, 2


class GenericSocket(Socket):
    """A socket to a generic netlink family; NetlinkError ENOENT: it is not there."""

    def __init__(self, family: str) -> None:
        super().__init__(GENERIC)
        self.family = CONTROL
        self.groups: dict[str, int] = {}
        try:
            self._resolve(family)
        except BaseException:
            self.close()
            raise

    def _resolve(self, family: str) -> None:
        name = attribute(FAMILY_NAME, family.encode() + b"\0")
        (answer,) = self.call(GET_FAMILY, 0, name)
        found = dict(attributes(answer))
        self.family = number(found[FAMILY_ID])
        for _, value in attributes(found.get(GROUPS, b"")):
            group = dict(attributes(value))
            self.groups[text(group[GROUP_NAME])] = number(group[GROUP_ID])

    def call(self, command: int, flags: int, attrs: bytes) -> list[bytes]:
        """The attributes of each message of the answer."""
        body = _GENERIC.pack(command, 1) + attrs
        return [one[_GENERIC.size :] for one in self.request(self.family, flags, body)]

    def events(self) -> list[bytes]:
        """The attributes of the messages that come next to a group that was joined."""
        told = [one for one in self.receive() if one.kind == self.family]
        return [one.body[_GENERIC.size :] for one in told]
