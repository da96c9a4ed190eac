# SPDX-License-Identifier: GPL-2.0-or-later
"""The attributes that a client sends, and what it makes of those of an answer."""

from __future__ import annotations

import dataclasses
import errno
import os

import pytest

from sluice import netlink, spec, wire
from sluice.errors import NetlinkError
from sluice.netlink import Client, Listener, Rule
from tests.unit._machine import DEVICE0, QUEUE0

HERE = Rule("tap*", "host", False, "cake", "/c:1", stall_ms=9, target_us=0)
DEVICE = dataclasses.replace(DEVICE0, by_rule=("on", "stall-ms"), by_hand=("target-us",))


class Socket:
    """Keeps what is sent, and answers what it is given."""

    family, groups = 31, {spec.EVENTS: 9}
    refusal = 0  # errno

    def __init__(self, family: str) -> None:
        if Socket.refusal:
            raise NetlinkError(Socket.refusal)
        assert family == "sluice"
        Socket.made = self
        self.sent: list[tuple[int, int, bytes]] = []
        self.answer: list[bytes] = []
        self.joined: list[int] = []
        self.is_closed = False
        self._ends = os.pipe()
        self.fileno = lambda: self._ends[0]
        self.join = self.joined.append

    def close(self) -> None:
        self.is_closed = True

    def call(self, command: int, flags: int, attrs: bytes) -> list[bytes]:
        self.sent.append((command, flags, attrs))
        return self.answer

    def events(self) -> list[bytes]:
        return self.answer

    def arrive(self) -> None:
        os.write(self._ends[1], b"x")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(wire, "GenericSocket", Socket)
    monkeypatch.setattr(Socket, "refusal", 0)
    return Client()


def device_message(**changes: object) -> bytes:
    values = {**dataclasses.asdict(DEVICE0), "state": 0, "on": 1, **changes}
    values.update({"by_rule": 0b00011, "by_hand": 0b10000})
    return netlink.encode(values.items(), spec.DEVICE)


def test_devices_are_dumped(client: Client) -> None:
    Socket.made.answer = [device_message(), device_message(ifindex=3, on=0, state=5)]
    off = dataclasses.replace(DEVICE, ifindex=3, on=False, state="refused")
    with client:
        assert client.devices() == [DEVICE, off]
        assert client.family == 31 and client.fileno() == Socket.made.fileno()
        assert not Socket.made.is_closed
    assert Socket.made.is_closed
    assert Socket.made.sent == [(spec.DEVICE_GET, wire.DUMP, b"")]


def test_attribute_of_a_newer_module_is_left_out(client: Client) -> None:
    Socket.made.answer = [device_message() + wire.attribute(99, b"\0\0\0\0")]
    assert client.devices() == [DEVICE]


def test_one_device_is_asked_for_by_its_index(client: Client) -> None:
    Socket.made.answer = [device_message()]
    assert client.device(2) == DEVICE
    ((command, flags, attrs),) = Socket.made.sent
    assert (command, flags) == (spec.DEVICE_GET, 0)
    assert netlink.decode(attrs, spec.DEVICE) == {"ifindex": 2}


@pytest.mark.parametrize(("only", "attrs"), [(None, {}), (2, {"ifindex": 2})])
def test_queues_of_all_devices_or_of_one(client: Client, only, attrs) -> None:
    values = dataclasses.asdict(QUEUE0)
    Socket.made.answer = [
        netlink.encode({**values, "state": number}.items(), spec.QUEUE)
        for number in range(len(netlink.QUEUE_STATES))
    ]
    found = client.queues(only)
    assert [queue.state for queue in found] == list(netlink.QUEUE_STATES)
    assert found[0] == QUEUE0
    ((command, flags, sent),) = Socket.made.sent
    assert (command, flags) == (spec.QUEUE_GET, wire.DUMP)
    assert netlink.decode(sent, spec.QUEUE) == attrs


def test_settings_are_set(client: Client) -> None:
    client.set_device(2, on=0, limit=7)
    ((command, flags, attrs),) = Socket.made.sent
    assert (command, flags) == (spec.DEVICE_SET, 0)
    found = netlink.decode(attrs, spec.DEVICE)
    assert found == {"ifindex": 2, "on": 0, "limit": 7}


def test_rules_are_sent_in_their_order_and_read_again(client: Client) -> None:
    other = Rule("vnet*", "all", True, "", "/c:2")
    client.set_rules([HERE, other], ["tap?", "*"])
    ((command, flags, attrs),) = Socket.made.sent
    assert (command, flags) == (spec.RULES_SET, 0)
    found = list(wire.attributes(attrs))
    assert [kind for kind, _ in found] == [1, 1, 2, 2]
    assert [value for _, value in found[2:]] == [b"tap?\0", b"*\0"]
    given = [value for _, value in found[:2]]
    assert netlink.decode(given[0], spec.RULE)["stall_ms"] == 9
    assert "stall_ms" not in netlink.decode(given[1], spec.RULE), "it sets none"
    Socket.made.answer = given
    assert client.rules() == [HERE, other]
    assert Socket.made.sent[-1] == (spec.RULE_GET, wire.DUMP, b"")


def test_names_that_are_no_text_are_sent_as_they_are(client: Client) -> None:
    client.set_rules([], ["t\udcff"])
    ((_, _, attrs),) = Socket.made.sent
    assert attrs.endswith(b"t\xff\0\0")


def test_listener_gets_events_and_waits_no_longer_than_told(client: Client) -> None:
    listener = Listener()
    assert Socket.made.joined == [9]
    values = {"ifindex": 2, "ifname": "tap0", "queue": 1}
    values.update({"count": 3, "fill": 5, "ring": 8})
    Socket.made.answer = [
        netlink.encode({**values, "kind": kind}.items(), spec.EVENT) for kind in (1, 9)
    ]
    assert listener.read(0) == [], "nothing has arrived"
    Socket.made.arrive()
    stall = netlink.Event(2, "tap0", 1, "stall", 3, 5, 8)
    unknown = dataclasses.replace(stall, kind="kind 9")
    assert listener.read(0) == [stall, unknown]
    assert next(iter(listener)) == stall


@pytest.mark.parametrize(
    ("refusal", "error"), [(errno.ENOENT, LookupError), (errno.EPERM, NetlinkError)]
)
@pytest.mark.parametrize("kind", [Client, Listener])
def test_module_that_is_not_there(client, monkeypatch, kind, refusal, error) -> None:
    monkeypatch.setattr(Socket, "refusal", refusal)
    with pytest.raises(error):
        kind()
