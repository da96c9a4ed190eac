# SPDX-License-Identifier: GPL-2.0-or-later
"""The bytes that a client sends, and what it makes of those of an answer."""

from __future__ import annotations

import dataclasses
import errno
import os
import types
from collections.abc import Callable

import pytest
from pyroute2.netlink import NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError

from sluice import netlink
from sluice.netlink import Client, Listener, Rule
from tests.unit._machine import DEVICE0, QUEUE0

FAMILY_NUMBER = 31
HERE = Rule("tap*", "host", False, "cake", "/c:1", stall_ms=9, target_us=0)


def through_bytes(message: genlmsg, kind: type[genlmsg]) -> genlmsg:
    """The message as whoever receives it decodes it."""
    message.encode()
    received = kind(bytes(message.data))
    received.decode()
    return received


class Socket:
    """Keeps what is sent, and answers what it is given."""

    def __init__(self) -> None:
        self.prid = FAMILY_NUMBER
        self.marshal = types.SimpleNamespace(msg_map={})
        self.sent: list[tuple[genlmsg, int]] = []
        self.answers: list[genlmsg] = []
        self.bound: tuple[object, ...] = ()
        self.groups: list[str] = []
        self.refusal = 0  # errno of bind()
        self.is_closed = False
        self._ends = os.pipe()

    def bind(self, *how: object) -> None:
        if self.refusal:
            raise NetlinkError(self.refusal)
        self.bound = how

    def close(self) -> None:
        self.is_closed = True

    def add_membership(self, group: str) -> None:
        self.groups.append(group)

    def fileno(self) -> int:
        return self._ends[0]

    def arrive(self) -> None:
        os.write(self._ends[1], b"x")

    def nlm_request(self, message: genlmsg, msg_type: int, msg_flags: int):
        assert msg_type == FAMILY_NUMBER
        kind = self.marshal.msg_map[FAMILY_NUMBER]
        self.sent.append((through_bytes(message, kind), msg_flags & ~NLM_F_REQUEST))
        assert msg_flags & NLM_F_REQUEST
        return self.get()

    def get(self) -> list[genlmsg]:
        kind = self.marshal.msg_map[FAMILY_NUMBER]
        return [through_bytes(message, kind) for message in self.answers]


@pytest.fixture
def socket(monkeypatch: pytest.MonkeyPatch) -> Socket:
    made = Socket()
    monkeypatch.setattr(netlink, "_open_socket", lambda: made)
    return made


def message_of(kind: type[genlmsg], /, **values: object) -> genlmsg:
    message = kind()
    message["attrs"] = netlink.format_attrs(kind.prefix, values)
    return message


def device_message(**changes: object) -> genlmsg:
    values = {**dataclasses.asdict(DEVICE0), "state": 0, "on": 1, **changes}
    values.update({"by_rule": 0b00011, "by_hand": 0b10000})
    return message_of(netlink._DeviceMessage, **values)


DEVICE = dataclasses.replace(DEVICE0, by_rule=("on", "stall-ms"), by_hand=("target-us",))


def sent_attrs(socket: Socket) -> tuple[int, int, list[tuple[str, object]]]:
    """Command, flags and attributes of the only request."""
    ((message, flags),) = socket.sent
    return message["cmd"], flags, [tuple(pair) for pair in message["attrs"]]


def test_devices_are_dumped(socket: Socket) -> None:
    socket.answers = [device_message(), device_message(ifindex=3, on=0, state=5)]
    with Client() as client:
        off = dataclasses.replace(DEVICE, ifindex=3, on=False, state="refused")
        assert client.devices() == [DEVICE, off]
        assert client.family == FAMILY_NUMBER and client.fileno() == socket.fileno()
        assert not socket.is_closed
    assert socket.is_closed and socket.bound[0] == "sluice"
    assert sent_attrs(socket) == (netlink.DEVICE_GET, NLM_F_DUMP, [])


def test_one_device_is_asked_for_by_its_index(socket: Socket) -> None:
    socket.answers = [device_message()]
    assert Client().device(2) == DEVICE
    attrs = [("SLUICE_A_DEVICE_IFINDEX", 2)]
    assert sent_attrs(socket) == (netlink.DEVICE_GET, 0, attrs)


@pytest.mark.parametrize(
    ("only", "attrs"), [(None, []), (2, [("SLUICE_A_QUEUE_IFINDEX", 2)])]
)
def test_queues_of_all_devices_or_of_one(socket: Socket, only, attrs) -> None:
    values = dataclasses.asdict(QUEUE0)
    socket.answers = [
        message_of(netlink._QueueMessage, **{**values, "state": number})
        for number in range(len(netlink.QUEUE_STATES))
    ]
    found = Client().queues(only)
    assert [queue.state for queue in found] == list(netlink.QUEUE_STATES)
    assert found[0] == QUEUE0
    assert sent_attrs(socket) == (netlink.QUEUE_GET, NLM_F_DUMP, attrs)


def test_settings_are_set_and_acknowledged(socket: Socket) -> None:
    Client().set_device(2, on=0, limit=7)
    assert sent_attrs(socket) == (
        netlink.DEVICE_SET,
        NLM_F_ACK,
        [
            ("SLUICE_A_DEVICE_IFINDEX", 2),
            ("SLUICE_A_DEVICE_ON", 0),
            ("SLUICE_A_DEVICE_LIMIT", 7),
        ],
    )


def test_rules_are_sent_in_their_order_and_read_again(socket: Socket) -> None:
    other = Rule("vnet*", "all", True, "", "/c:2")
    Client().set_rules([HERE, other], ["tap?", "*"])
    command, flags, attrs = sent_attrs(socket)
    assert (command, flags) == (netlink.RULES_SET, NLM_F_ACK)
    names = [name.removeprefix("SLUICE_A_RULES_") for name, _ in attrs]
    assert names == ["RULE", "RULE", "RESET", "RESET"]
    assert [value for _, value in attrs[2:]] == ["tap?", "*"]
    given = [[tuple(pair) for pair in value["attrs"]] for _, value in attrs[:2]]
    assert ("SLUICE_A_RULE_STALL_MS", 9) in given[0]
    assert "SLUICE_A_RULE_STALL_MS" not in dict(given[1]), "it sets none"
    socket.answers = []
    for pairs in given:
        message = netlink._RuleMessage()
        message["attrs"] = pairs
        socket.answers.append(message)
    socket.sent.clear()
    assert Client().rules() == [HERE, other]
    assert sent_attrs(socket) == (netlink.RULE_GET, NLM_F_DUMP, [])


def test_listener_gets_events_and_waits_no_longer_than_told(socket: Socket) -> None:
    listener = Listener()
    assert socket.groups == [netlink.EVENTS]
    values = {"ifindex": 2, "ifname": "tap0", "queue": 1}
    values.update({"count": 3, "fill": 5, "ring": 8})
    socket.answers = [
        message_of(netlink._EventMessage, **values, kind=kind) for kind in (1, 9)
    ]
    assert listener.read(0) == [], "nothing has arrived"
    socket.arrive()
    stall = netlink.Event(2, "tap0", 1, "stall", 3, 5, 8)
    unknown = dataclasses.replace(stall, kind="kind 9")
    assert listener.read(0) == [stall, unknown]
    assert next(iter(listener)) == stall


@pytest.mark.parametrize(
    ("refusal", "error"), [(errno.ENOENT, LookupError), (errno.EPERM, NetlinkError)]
)
@pytest.mark.parametrize("kind", [Client, Listener])
def test_socket_is_closed_if_the_module_is_not_there(
    socket: Socket, kind: Callable[[], Client], refusal: int, error: type[Exception]
) -> None:
    socket.refusal = refusal
    with pytest.raises(error):
        kind()
    assert socket.is_closed
