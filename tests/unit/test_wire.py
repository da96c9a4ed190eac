# SPDX-License-Identifier: GPL-2.0-or-later
"""The netlink client: against this machine's kernel, and against recorded answers."""

from __future__ import annotations

import errno
import struct

import pytest

from sluice import wire
from sluice.errors import NetlinkError
from sluice.wire import GenericSocket, Socket, attribute, message


class Kernel:
    """In place of a socket: answers each request with the next datagrams."""

    def __init__(self, *answers: list[bytes]) -> None:
        self.answers = list(answers)
        self.queue: list[bytes] = []
        self.sent: list[wire.Message] = []

    def send(self, data: bytes) -> None:
        (told,) = wire.messages(data)
        self.sent.append(told)
        self.queue += self.answers.pop(0)

    def recv(self, _: int) -> bytes:
        return self.queue.pop(0)


@pytest.fixture
def route() -> Socket:
    made = Socket(wire.ROUTE)
    made._socket.close()
    return made


def done(sequence: int, code: int = 0) -> bytes:
    body = struct.pack("=i", code)
    return message(wire.DONE, wire.MULTI, sequence, body)


def test_attributes_are_read_as_they_were_written() -> None:
    data = attribute(1, b"odd") + attribute(2, b"") + attribute(3 | wire.NESTED, b"1234")
    assert len(data) % 4 == 0
    assert list(wire.attributes(data)) == [(1, b"odd"), (2, b""), (3, b"1234")]


@pytest.mark.parametrize("length", range(12))
def test_what_is_cut_off_is_left_out(length: int) -> None:
    data = (attribute(1, b"abcd") + attribute(2, b"efgh"))[:length]
    assert list(wire.attributes(data)) == [(1, b"abcd")] * (length >= 8)


def test_name_that_is_no_text_is_kept() -> None:
    assert wire.text(b"t\xff\0\0") == "t\udcff"


def test_this_kernel_answers() -> None:
    with GenericSocket("nlctrl") as control:
        assert control.family == wire.CONTROL and "notify" in control.groups
        told = control.call(wire.GET_FAMILY, wire.DUMP, b"")
        names = {wire.text(dict(wire.attributes(one))[wire.FAMILY_NAME]) for one in told}
        assert "nlctrl" in names
        control.join(control.groups["notify"])


def test_family_that_is_not_there() -> None:
    with pytest.raises(NetlinkError) as refused:
        GenericSocket("sluice.none")
    assert refused.value.code == errno.ENOENT


def test_dump_is_asked_for_again_if_it_was_interrupted(route, monkeypatch) -> None:
    monkeypatch.setattr(wire.time, "sleep", lambda _: None)
    parts = [
        [message(20, wire.MULTI | wire.DUMP_INTR, 1, b"old ") + done(1)],
        [*(message(20, wire.MULTI, 2, new) for new in (b"new1", b"new2")), done(2)],
    ]
    kernel = route._socket = Kernel(*parts)
    assert route.request(18, wire.DUMP, b"?") == [b"new1", b"new2"]
    assert [one.flags for one in kernel.sent] == [wire.REQUEST | wire.DUMP] * 2
    turns = range(3, 3 + wire.DUMP_TRIES)
    told = [[message(20, wire.DUMP_INTR, turn, b"old ") + done(turn)] for turn in turns]
    route._socket = Kernel(*told)
    with pytest.raises(NetlinkError, match="come and go"):
        route.request(18, wire.DUMP, b"?")


def test_answer_to_an_earlier_request_is_passed_over(route) -> None:
    late, event = message(20, 0, 0, b"late"), message(20, 0, 77, b"evnt")
    acknowledged = message(wire.ERROR, 0, 1, struct.pack("=i", 0))
    route._socket = Kernel([late + event, message(20, 0, 1, b"mine"), acknowledged])
    assert route.request(19, 0, b"") == [b"mine"]


@pytest.mark.parametrize("capped", [True, False])
def test_refusal_has_the_kernels_own_words(route, capped: bool) -> None:
    request = message(19, wire.REQUEST | wire.ACK, 1, b"12345")
    words = attribute(wire.ERROR_MESSAGE, b"ifindex is missing\0")
    quoted = request[:16] if capped else request + b"\0\0\0"
    flags = wire.ACK_TLVS | (wire.CAPPED if capped else 0)
    body = struct.pack("=i", -errno.EINVAL) + quoted + words
    route._socket = Kernel([message(wire.ERROR, flags, 1, body)])
    with pytest.raises(NetlinkError, match="ifindex is missing") as refused:
        route.request(19, 0, b"12345")
    assert refused.value.code == errno.EINVAL


def test_dump_that_fails_midway_is_an_error(route) -> None:
    route._socket = Kernel([message(20, wire.MULTI, 1, b"some"), done(1, -errno.ENOMEM)])
    with pytest.raises(NetlinkError) as refused:
        route.request(18, wire.DUMP, b"")
    assert refused.value.code == errno.ENOMEM
