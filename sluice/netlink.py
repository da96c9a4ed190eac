# SPDX-License-Identifier: GPL-2.0-or-later
"""The module's generic netlink family, as docs/sluice.yaml describes it.

A Client reads and sets the devices of the network namespace it was made in, a
Listener receives their events. A request that the module refuses raises NetlinkError.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import select
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sluice import spec, wire
from sluice.spec import (
    DEVICE_GET,
    DEVICE_SET,
    DEVICE_STATES,
    EVENT_KINDS,
    EVENTS,
    FAMILY,
    QUEUE_EVENT,
    QUEUE_GET,
    QUEUE_STATES,
    RULE_GET,
    RULE_NETNS,
    RULES_SET,
    SETTINGS,
)
from sluice.errors import NetlinkError

__all__ = ["NetlinkError", "QUEUE_EVENT"]

RULES_MAX = 256
SIZES = {"u8": 1, "u32": 4, "u64": 8}
Table = Mapping[int, tuple[str, str]]  # of spec


@dataclass(frozen=True)
class Device:
    """One tun or tap device; the fields are those of the spec."""

    ifindex: int
    ifname: str
    on: bool
    state: str
    queues: int
    stall_ms: int
    low_percent: int
    limit: int
    target_us: int
    tx_dropped: int
    reason: str = ""
    rule: str = ""  # FILE:LINE of its rule
    by_rule: tuple[str, ...] = ()  # of SETTINGS
    by_hand: tuple[str, ...] = ()
    qdisc: str = ""  # what its rule asks for in place of noqueue


# What the module takes for the pace of a reader that it has not measured.
ASSUMED_READER_NS = 1_000_000


@dataclass(frozen=True)
class Queue:
    """One queue of a device; the fields are those of the spec."""

    ifindex: int
    id: int
    state: str
    ring: int
    fill: int
    limit: int
    low: int
    stops: int
    wakes_timer: int
    wakes_other: int
    stalls: int
    longest_stop_ns: int
    drops: int
    reader_ns: int
    rescued: int
    checks: int

    @property
    def has_pace(self) -> bool:
        """Whether the module has measured its reader, and does not assume a pace."""
        return self.reader_ns not in (0, ASSUMED_READER_NS)


@dataclass(frozen=True)
class Event:
    """A queue stopped for the first time, or stalled; the fields of the spec."""

    ifindex: int
    ifname: str
    queue: int
    kind: str
    count: int  # how many events it reports together
    fill: int
    ring: int


@dataclass(frozen=True)
class Rule:
    """One rule of the module; the fields are those of the spec."""

    pattern: str
    netns: str
    on: bool
    qdisc: str
    origin: str
    stall_ms: int | None = None
    low_percent: int | None = None
    limit: int | None = None
    target_us: int | None = None


def decode(data: bytes, table: Table) -> dict[str, Any]:
    """The attributes of a message by their names in the spec, as Python spells them;
    those of a newer module are left out."""
    found: dict[str, Any] = {}
    for kind, value in wire.attributes(data):
        name, form = table.get(kind, ("", ""))
        if name:
            told = wire.text(value) if form == "string" else wire.number(value)
            found[name.replace("-", "_")] = told
    return found


def _encode_value(form: str, value: Any) -> bytes:
    if form == "nest":
        return bytes(value)
    if form == "string":
        return os.fsencode(value) + b"\0"
    return int(value).to_bytes(SIZES[form], sys.byteorder)


def encode(values: Iterable[tuple[str, Any]], table: Table) -> bytes:
    """Attributes by their names in the spec; None leaves one out."""
    numbers = {name: (kind, form) for kind, (name, form) in table.items()}
    data = b""
    for name, value in values:
        if value is None:
            continue
        kind, form = numbers[name.replace("_", "-")]
        kind |= wire.NESTED if form == "nest" else 0
        data += wire.attribute(kind, _encode_value(form, value))
    return data


def parse_device(data: bytes) -> Device:
    attrs = decode(data, spec.DEVICE)
    attrs["state"] = DEVICE_STATES[attrs["state"]]
    attrs["on"] = bool(attrs["on"])
    for origin in ("by_rule", "by_hand"):
        bits = attrs.get(origin, 0)
        attrs[origin] = tuple(
            name for bit, name in enumerate(SETTINGS) if bits >> bit & 1
        )
    return Device(**attrs)


def parse_queue(data: bytes) -> Queue:
    attrs = decode(data, spec.QUEUE)
    attrs["state"] = QUEUE_STATES[attrs["state"]]
    return Queue(**attrs)


def parse_event(data: bytes) -> Event:
    attrs = decode(data, spec.EVENT)
    kind = attrs["kind"]
    known = kind < len(EVENT_KINDS)
    attrs["kind"] = EVENT_KINDS[kind] if known else f"kind {kind}"
    return Event(**attrs)


def parse_rule(data: bytes) -> Rule:
    attrs = decode(data, spec.RULE)
    attrs["netns"] = RULE_NETNS[attrs["netns"]]
    attrs["on"] = bool(attrs["on"])
    return Rule(**attrs)


def format_rule(rule: Rule) -> bytes:
    values = dataclasses.asdict(rule)
    values["netns"] = RULE_NETNS.index(rule.netns)
    return encode(values.items(), spec.RULE)


class Client:
    """A socket to the module; raises LookupError while it is not loaded."""

    def __init__(self) -> None:
        try:
            self._socket = wire.GenericSocket(FAMILY)
        except NetlinkError as error:
            if error.code == errno.ENOENT:
                raise LookupError("sluice: the module is not loaded") from error
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    @property
    def family(self) -> int:
        """Its number, which changes each time the module is loaded."""
        return self._socket.family

    def fileno(self) -> int:
        return self._socket.fileno()

    def devices(self) -> list[Device]:
        return [
            parse_device(told) for told in self._socket.call(DEVICE_GET, wire.DUMP, b"")
        ]

    def device(self, ifindex: int) -> Device:
        attrs = encode([("ifindex", ifindex)], spec.DEVICE)
        (told,) = self._socket.call(DEVICE_GET, 0, attrs)
        return parse_device(told)

    def queues(self, ifindex: int | None = None) -> list[Queue]:
        """All queues in use, or those of one device."""
        attrs = encode([("ifindex", ifindex)], spec.QUEUE)
        return [
            parse_queue(told) for told in self._socket.call(QUEUE_GET, wire.DUMP, attrs)
        ]

    def set_device(self, ifindex: int, **attrs: int) -> None:
        """attrs: on, stall_ms, low_percent, limit, target_us."""
        data = encode({"ifindex": ifindex, **attrs}.items(), spec.DEVICE)
        self._socket.call(DEVICE_SET, 0, data)

    def rules(self) -> list[Rule]:
        """The rules of the machine, in their order."""
        return [parse_rule(told) for told in self._socket.call(RULE_GET, wire.DUMP, b"")]

    def set_rules(self, rules: Iterable[Rule], reset: Iterable[str] = ()) -> None:
        """Replace all rules; devices that match a glob of reset lose their settings made
        by hand."""
        attrs: list[tuple[str, Any]] = [("rule", format_rule(rule)) for rule in rules]
        attrs += [("reset", pattern) for pattern in reset]
        self._socket.call(RULES_SET, 0, encode(attrs, spec.RULES))


class Listener(Client):
    """Receives every event from now on; iterate over it, or call read()."""

    def __init__(self) -> None:
        super().__init__()
        self._socket.join(self._socket.groups[EVENTS])

    def read(self, seconds: float | None = None) -> list[Event]:
        """The next events; empty if none comes within this time."""
        if not select.select([self._socket.fileno()], [], [], seconds)[0]:
            return []
        return [parse_event(told) for told in self._socket.events()]

    def __iter__(self) -> Iterator[Event]:
        while True:
            yield from self.read()
