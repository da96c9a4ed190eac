# SPDX-License-Identifier: GPL-2.0-or-later
"""The module's generic netlink family, as docs/sluice.yaml describes it.

A Client reads and sets the devices of the network namespace it was made in, a
Listener receives their events. A request that the module refuses raises pyroute2's
NetlinkError, whose code is an errno.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink import (
    NLA_F_NESTED,
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    exceptions,
    genlmsg,
    nla,
)
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

FAMILY = "sluice"
DEVICE_GET, DEVICE_SET, QUEUE_GET, QUEUE_EVENT, RULES_SET, RULE_GET = range(1, 7)
RULES_MAX = 256
EVENTS = "events"  # the multicast group
DUMP_TRIES = 20
NLM_F_DUMP_INTR = 0x10  # include/uapi/linux/netlink.h
Interrupted: Any = getattr(exceptions, "NetlinkDumpInterrupted", ())  # since 0.6

DEVICE_STATES = ("served", "off", "down", "upstream", "unread", "refused")
QUEUE_STATES = (
    "open",
    "stopped",
    "stalled",
    "noqueue",
    "unread",
    "idle",
    "lockless",
)
EVENT_KINDS = ("stop", "stall", "noqueue")
RULE_NETNS = ("all", "host")
SETTINGS = ("on", "stall-ms", "low-percent", "limit", "target-us")

_DEVICE_ATTRS = (
    ("SLUICE_A_DEVICE_UNSPEC", "none"),
    ("SLUICE_A_DEVICE_IFINDEX", "uint32"),
    ("SLUICE_A_DEVICE_IFNAME", "asciiz"),
    ("SLUICE_A_DEVICE_ON", "uint8"),
    ("SLUICE_A_DEVICE_STATE", "uint32"),
    ("SLUICE_A_DEVICE_REASON", "asciiz"),
    ("SLUICE_A_DEVICE_QUEUES", "uint32"),
    ("SLUICE_A_DEVICE_STALL_MS", "uint32"),
    ("SLUICE_A_DEVICE_LOW_PERCENT", "uint32"),
    ("SLUICE_A_DEVICE_LIMIT", "uint32"),
    ("SLUICE_A_DEVICE_TX_DROPPED", "uint64"),
    ("SLUICE_A_DEVICE_PAD", "none"),
    ("SLUICE_A_DEVICE_TARGET_US", "uint32"),
    ("SLUICE_A_DEVICE_RULE", "asciiz"),
    ("SLUICE_A_DEVICE_BY_RULE", "uint32"),
    ("SLUICE_A_DEVICE_BY_HAND", "uint32"),
    ("SLUICE_A_DEVICE_QDISC", "asciiz"),
)
_RULE_ATTRS = (
    ("SLUICE_A_RULE_UNSPEC", "none"),
    ("SLUICE_A_RULE_PATTERN", "asciiz"),
    ("SLUICE_A_RULE_NETNS", "uint32"),
    ("SLUICE_A_RULE_ON", "uint8"),
    ("SLUICE_A_RULE_STALL_MS", "uint32"),
    ("SLUICE_A_RULE_LOW_PERCENT", "uint32"),
    ("SLUICE_A_RULE_LIMIT", "uint32"),
    ("SLUICE_A_RULE_TARGET_US", "uint32"),
    ("SLUICE_A_RULE_QDISC", "asciiz"),
    ("SLUICE_A_RULE_ORIGIN", "asciiz"),
)
_RULES_ATTRS = (
    ("SLUICE_A_RULES_UNSPEC", "none"),
    ("SLUICE_A_RULES_RULE", "rule"),
    ("SLUICE_A_RULES_RESET", "asciiz"),
)
_QUEUE_ATTRS = (
    ("SLUICE_A_QUEUE_UNSPEC", "none"),
    ("SLUICE_A_QUEUE_IFINDEX", "uint32"),
    ("SLUICE_A_QUEUE_ID", "uint32"),
    ("SLUICE_A_QUEUE_STATE", "uint32"),
    ("SLUICE_A_QUEUE_RING", "uint32"),
    ("SLUICE_A_QUEUE_FILL", "uint32"),
    ("SLUICE_A_QUEUE_LIMIT", "uint32"),
    ("SLUICE_A_QUEUE_LOW", "uint32"),
    ("SLUICE_A_QUEUE_STOPS", "uint64"),
    ("SLUICE_A_QUEUE_WAKES_TIMER", "uint64"),
    ("SLUICE_A_QUEUE_WAKES_OTHER", "uint64"),
    ("SLUICE_A_QUEUE_STALLS", "uint64"),
    ("SLUICE_A_QUEUE_LONGEST_STOP_NS", "uint64"),
    ("SLUICE_A_QUEUE_DROPS", "uint64"),
    ("SLUICE_A_QUEUE_READER_NS", "uint32"),
    ("SLUICE_A_QUEUE_PAD", "none"),
    ("SLUICE_A_QUEUE_RESCUED", "uint64"),
    ("SLUICE_A_QUEUE_CHECKS", "uint32"),
)
_EVENT_ATTRS = (
    ("SLUICE_A_EVENT_UNSPEC", "none"),
    ("SLUICE_A_EVENT_IFINDEX", "uint32"),
    ("SLUICE_A_EVENT_IFNAME", "asciiz"),
    ("SLUICE_A_EVENT_QUEUE", "uint32"),
    ("SLUICE_A_EVENT_KIND", "uint32"),
    ("SLUICE_A_EVENT_COUNT", "uint32"),
    ("SLUICE_A_EVENT_FILL", "uint32"),
    ("SLUICE_A_EVENT_RING", "uint32"),
)
_DEVICE_PREFIX = "SLUICE_A_DEVICE_"
_QUEUE_PREFIX = "SLUICE_A_QUEUE_"
_EVENT_PREFIX = "SLUICE_A_EVENT_"
_RULE_PREFIX = "SLUICE_A_RULE_"
_RULES_PREFIX = "SLUICE_A_RULES_"


class _DeviceMessage(genlmsg):
    prefix = _DEVICE_PREFIX
    nla_map = _DEVICE_ATTRS


class _QueueMessage(genlmsg):
    prefix = _QUEUE_PREFIX
    nla_map = _QUEUE_ATTRS


class _EventMessage(genlmsg):
    prefix = _EVENT_PREFIX
    nla_map = _EVENT_ATTRS


class _RuleMessage(genlmsg):
    prefix = _RULE_PREFIX
    nla_map = _RULE_ATTRS


class _RulesMessage(genlmsg):
    prefix = _RULES_PREFIX
    nla_map = _RULES_ATTRS

    class rule(nla):
        nla_flags = NLA_F_NESTED
        nla_map = _RULE_ATTRS


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


# READER_NS_AT_FIRST of kmod/depth.c: the pace of a reader that was not measured.
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


def decode(value: object) -> object:
    return os.fsdecode(value) if isinstance(value, bytes) else value


def parse_attrs(message: genlmsg, prefix: str) -> dict[str, Any]:
    """The attributes of a message by their names in the spec.

    pyroute2 gives a device's name that is not UTF-8 as bytes: it is decoded as Python
    decodes file names.
    """
    return {
        name[len(prefix) :].lower(): decode(value)
        for name, value in message["attrs"]
        if name.startswith(prefix)
    }


def parse_device(message: genlmsg) -> Device:
    attrs = parse_attrs(message, _DEVICE_PREFIX)
    attrs["state"] = DEVICE_STATES[attrs["state"]]
    attrs["on"] = bool(attrs["on"])
    for origin in ("by_rule", "by_hand"):
        bits = attrs.get(origin, 0)
        attrs[origin] = tuple(
            name for bit, name in enumerate(SETTINGS) if bits >> bit & 1
        )
    return Device(**attrs)


def parse_queue(message: genlmsg) -> Queue:
    attrs = parse_attrs(message, _QUEUE_PREFIX)
    attrs["state"] = QUEUE_STATES[attrs["state"]]
    return Queue(**attrs)


def parse_event(message: genlmsg) -> Event:
    attrs = parse_attrs(message, _EVENT_PREFIX)
    kind = attrs["kind"]
    known = kind < len(EVENT_KINDS)
    attrs["kind"] = EVENT_KINDS[kind] if known else f"kind {kind}"
    return Event(**attrs)


def parse_rule(message: genlmsg) -> Rule:
    attrs = parse_attrs(message, _RULE_PREFIX)
    attrs["netns"] = RULE_NETNS[attrs["netns"]]
    attrs["on"] = bool(attrs["on"])
    return Rule(**attrs)


def format_attrs(prefix: str, values: Mapping[str, object]) -> list[tuple[str, object]]:
    """Attributes by their names in the spec, in pyroute2's format."""
    return [
        (prefix + name.upper(), value)
        for name, value in values.items()
        if value is not None
    ]


def format_rule(rule: Rule) -> dict[str, object]:
    values = dataclasses.asdict(rule)
    values["netns"] = RULE_NETNS.index(rule.netns)
    values["on"] = int(rule.on)
    return {"attrs": format_attrs(_RULE_PREFIX, values)}


def uninterrupted(dump: Callable[[], Any]) -> Any:
    """The answer of a dump; repeated if devices appeared or vanished meanwhile, so that
    one may be missing or there twice."""
    for _ in range(DUMP_TRIES):
        with contextlib.suppress(Interrupted):
            told = dump()
            # pyroute2 before 0.6 leaves that to its caller
            if not any(one["header"]["flags"] & NLM_F_DUMP_INTR for one in told):
                return told
        time.sleep(0.02)
    return dump()


def _open_socket() -> GenericNetlinkSocket:
    """A socket that gets the kernel's message for a refusal, where pyroute2 can (0.7)."""
    try:
        return GenericNetlinkSocket(ext_ack=True)
    except TypeError:
        return GenericNetlinkSocket()


class Client:
    """A socket to the module; raises LookupError while it is not loaded."""

    def __init__(self) -> None:
        self._socket = _open_socket()
        try:
            self._socket.bind(FAMILY, _DeviceMessage)
        except NetlinkError as error:
            self._socket.close()
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
        return int(self._socket.prid)

    def fileno(self) -> int:
        return self._socket.fileno()

    def _request(
        self, kind: type[genlmsg], cmd: int, flags: int, **attrs: object
    ) -> list[genlmsg]:
        return self._send(kind, cmd, flags, format_attrs(kind.prefix, attrs))

    def _send(
        self,
        kind: type[genlmsg],
        cmd: int,
        flags: int,
        attrs: list[tuple[str, object]],
    ) -> list[genlmsg]:
        message = kind()
        message["cmd"] = cmd
        message["version"] = 1
        message["attrs"] = attrs
        self._socket.marshal.msg_map[self._socket.prid] = kind
        return uninterrupted(
            lambda: list(
                self._socket.nlm_request(
                    message,
                    msg_type=self._socket.prid,
                    msg_flags=NLM_F_REQUEST | flags,
                )
            )
        )

    def devices(self) -> list[Device]:
        return [
            parse_device(message)
            for message in self._request(_DeviceMessage, DEVICE_GET, NLM_F_DUMP)
        ]

    def device(self, ifindex: int) -> Device:
        (message,) = self._request(
            _DeviceMessage, DEVICE_GET, 0, ifindex=ifindex
        )
        return parse_device(message)

    def queues(self, ifindex: int | None = None) -> list[Queue]:
        """All queues in use, or those of one device."""
        only = {} if ifindex is None else {"ifindex": ifindex}
        return [
            parse_queue(message)
            for message in self._request(_QueueMessage, QUEUE_GET, NLM_F_DUMP, **only)
        ]

    def set_device(self, ifindex: int, **attrs: int) -> None:
        """attrs: on, stall_ms, low_percent, limit, target_us."""
        self._request(
            _DeviceMessage, DEVICE_SET, NLM_F_ACK, ifindex=ifindex, **attrs
        )


    def rules(self) -> list[Rule]:
        """The rules of the machine, in their order."""
        return [
            parse_rule(message)
            for message in self._request(_RuleMessage, RULE_GET, NLM_F_DUMP)
        ]

    def set_rules(self, rules: Iterable[Rule], reset: Iterable[str] = ()) -> None:
        """Replace all rules; devices that match a glob of reset lose their settings made
        by hand."""
        attrs: list[tuple[str, object]] = [
            (_RULES_PREFIX + "RULE", format_rule(rule)) for rule in rules
        ]
        attrs += [(_RULES_PREFIX + "RESET", pattern) for pattern in reset]
        self._send(_RulesMessage, RULES_SET, NLM_F_ACK, attrs)


class Listener(Client):
    """Receives every event from now on; iterate over it, or call read()."""

    def __init__(self) -> None:
        super().__init__()
        self._socket.marshal.msg_map[self._socket.prid] = _EventMessage
        self._socket.add_membership(EVENTS)

    def read(self, seconds: float | None = None) -> list[Event]:
        """The next events; empty if none comes within this time."""
        if not select.select([self._socket.fileno()], [], [], seconds)[0]:
            return []
        return [parse_event(message) for message in self._socket.get()]

    def __iter__(self) -> Iterator[Event]:
        while True:
            yield from self.read()
