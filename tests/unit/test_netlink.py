# SPDX-License-Identifier: GPL-2.0-or-later
"""The netlink client, and the attributes that the module is sent and sends."""

from __future__ import annotations

import dataclasses
import errno
import os
import struct

import pytest

from sluice import netlink, spec, wire
from sluice.errors import NetlinkError
from sluice.netlink import Client, Listener, Rule
from sluice.wire import GenericSocket, Socket, attribute, message
from tests.unit._machine import DEVICE0, QUEUE0


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
    assert wire.text(b"t\xff\0\0") == "t\udcff"


@pytest.mark.parametrize("length", range(12))
def test_what_is_cut_off_is_left_out(length: int) -> None:
    data = (attribute(1, b"abcd") + attribute(2, b"efgh"))[:length]
    assert list(wire.attributes(data)) == [(1, b"abcd")] * (length >= 8)


def test_this_kernel_answers() -> None:
    with GenericSocket("nlctrl") as control:
        assert control.family == wire.CONTROL and "notify" in control.groups
        told = control.call(wire.GET_FAMILY, wire.DUMP, b"")
        names = {wire.text(dict(wire.attributes(one))[wire.FAMILY_NAME]) for one in told}
        assert "nlctrl" in names
        control.join(control.groups["notify"])
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
    halfway = [message(20, wire.MULTI, 2, b"some"), done(2, -errno.ENOMEM)]
    route._socket = Kernel(halfway)
    with pytest.raises(NetlinkError) as refused:
        route.request(18, wire.DUMP, b"")
    assert refused.value.code == errno.ENOMEM


# The module's family

HERE = Rule("tap*", "host", False, "cake", "/c:1", stall_ms=9, target_us=0)
DEVICE = dataclasses.replace(DEVICE0, by_rule=("on", "stall-ms"), by_hand=("target-us",))


class Fake:
    """Keeps what is sent, and answers what it is given."""

    family, groups = 31, {spec.EVENTS: 9}
    refusal = 0  # errno

    def __init__(self, family: str) -> None:
        if Fake.refusal:
            raise NetlinkError(Fake.refusal)
        assert family == "sluice"
        Fake.made = self
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
    monkeypatch.setattr(wire, "GenericSocket", Fake)
    monkeypatch.setattr(Fake, "refusal", 0)
    return Client()


def device_message(**changes: object) -> bytes:
    values = {**dataclasses.asdict(DEVICE0), "state": 0, "on": 1, **changes}
    values.update({"by_rule": 0b00011, "by_hand": 0b10000})
    return netlink.encode(values.items(), spec.DEVICE)


def test_device_is_set_and_asked_for_by_its_index(client: Client) -> None:
    Fake.made.answer = [device_message()]
    assert client.device(2) == DEVICE
    client.set_device(2, on=0, limit=7)
    (get, *attrs), (set_, *values) = Fake.made.sent
    assert (get, attrs[0], set_, values[0]) == (spec.DEVICE_GET, 0, spec.DEVICE_SET, 0)
    assert netlink.decode(attrs[1], spec.DEVICE) == {"ifindex": 2}
    found = netlink.decode(values[1], spec.DEVICE)
    assert found == {"ifindex": 2, "on": 0, "limit": 7}


def test_devices_are_dumped(client: Client) -> None:
    newer = wire.attribute(99, b"\0\0\0\0")  # of a newer module: is left out
    off = device_message(ifindex=3, on=0, state=5)
    Fake.made.answer = [device_message() + newer, off]
    off = dataclasses.replace(DEVICE, ifindex=3, on=False, state="refused")
    with client:
        assert client.devices() == [DEVICE, off]
        assert client.family == 31 and client.fileno() == Fake.made.fileno()
        assert not Fake.made.is_closed
    assert Fake.made.is_closed
    assert Fake.made.sent == [(spec.DEVICE_GET, wire.DUMP, b"")]


@pytest.mark.parametrize(("only", "attrs"), [(None, {}), (2, {"ifindex": 2})])
def test_queues_of_all_devices_or_of_one(client: Client, only, attrs) -> None:
    values = dataclasses.asdict(QUEUE0)
    Fake.made.answer = [
        netlink.encode({**values, "state": number}.items(), spec.QUEUE)
        for number in range(len(netlink.QUEUE_STATES))
    ]
    found = client.queues(only)
    assert [queue.state for queue in found] == list(netlink.QUEUE_STATES)
    assert found[0] == QUEUE0
    ((command, flags, sent),) = Fake.made.sent
    assert (command, flags) == (spec.QUEUE_GET, wire.DUMP)
    assert netlink.decode(sent, spec.QUEUE) == attrs


def test_rules_are_sent_in_their_order_and_read_again(client: Client) -> None:
    other = Rule("vnet*", "all", True, "", "/c:2")
    client.set_rules([HERE, other], ["tap?", "t\udcff"])
    ((command, flags, attrs),) = Fake.made.sent
    assert (command, flags) == (spec.RULES_SET, 0)
    found = list(wire.attributes(attrs))
    assert [kind for kind, _ in found] == [1, 1, 2, 2]
    assert [value for _, value in found[2:]] == [b"tap?\0", b"t\xff\0"]
    given = [value for _, value in found[:2]]
    assert netlink.decode(given[0], spec.RULE)["stall_ms"] == 9
    assert "stall_ms" not in netlink.decode(given[1], spec.RULE), "it sets none"
    Fake.made.answer = given
    assert client.rules() == [HERE, other]
    assert Fake.made.sent[-1] == (spec.RULE_GET, wire.DUMP, b"")


def test_listener_gets_events_and_waits_no_longer_than_told(client: Client) -> None:
    listener = Listener()
    assert Fake.made.joined == [9]
    values = {"ifindex": 2, "ifname": "tap0", "queue": 1}
    values.update({"count": 3, "fill": 5, "ring": 8})
    Fake.made.answer = [
        netlink.encode({**values, "kind": kind}.items(), spec.EVENT) for kind in (1, 9)
    ]
    assert listener.read(0) == [], "nothing has arrived"
    Fake.made.arrive()
    stall = netlink.Event(2, "tap0", 1, "stall", 3, 5, 8)
    unknown = dataclasses.replace(stall, kind="kind 9")
    assert listener.read(0) == [stall, unknown]
    assert next(iter(listener)) == stall


@pytest.mark.parametrize(
    ("refusal", "error"), [(errno.ENOENT, LookupError), (errno.EPERM, NetlinkError)]
)
@pytest.mark.parametrize("kind", [Client, Listener])
def test_module_that_is_not_there(client, monkeypatch, kind, refusal, error) -> None:
    monkeypatch.setattr(Fake, "refusal", refusal)
    with pytest.raises(error):
        kind()
