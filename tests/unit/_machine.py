# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine of recorded answers in place of the system, for the command."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn

import pytest

from sluice import config, namespaces, status, system
from sluice.devices import DEFAULTS
from sluice.errors import Denied, Gone, NetlinkError, SluiceError
from sluice.namespaces import Namespace
from sluice.netlink import SETTINGS, Device, Queue, Rule
from sluice.system import Link, ModuleAnswer, Owner, QdiscStats

TARGET_US = DEFAULTS["target-us"]
QEMU = Owner(pid=4711, command="qemu-system-x86", vhost=True, netns=1)
TAP0 = Link(2, "tap0", "tap", True, "fq_codel", 1000, 1, 17, 5000, False)
TUN0 = Link(3, "tun0", "tun", True, "noqueue", 500, 1, 0, 0, False)
DEVICE0 = Device(2, "tap0", True, "served", 1, 250, 50, 0, TARGET_US, 17)
DEVICE1 = Device(3, "tun0", True, "served", 1, 250, 50, 0, TARGET_US, 0)
QUEUE0 = Queue(
    ifindex=2, id=0, state="open", ring=1000, fill=312, limit=976, low=488, stops=1204,
    wakes_timer=1203, wakes_other=1, stalls=0, longest_stop_ns=12_300_000, drops=0,
    reader_ns=5000, rescued=0, checks=7000,
)
QUEUE1 = replace(QUEUE0, ifindex=3, state="noqueue", ring=500, limit=476, fill=0)


QDISC0 = QdiscStats(backlog=12, backlog_bytes=18000, drops=34, overlimits=0, marks=5)


@dataclass
class Machine:
    """What there is; set() changes it as the module would."""

    links: list[Link] = field(default_factory=lambda: [TAP0, TUN0])
    devices: list[Device] = field(default_factory=lambda: [DEVICE0, DEVICE1])
    queues: list[Queue] = field(default_factory=lambda: [QUEUE0, QUEUE1])
    loaded: bool = True
    owners: dict[str, list[Owner]] = field(default_factory=lambda: {"tap0": [QEMU]})
    refuses: dict[int, int] = field(default_factory=dict)  # ifindex: errno
    namespaces: dict[str, int] = field(default_factory=lambda: {"": 1})
    stale: set[str] = field(default_factory=set)  # names that lead nowhere
    denied: set[str] = field(default_factory=set)  # names that only root may enter
    set_calls: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    rules_refused: int = 0  # errno
    reset_calls: list[tuple[str, ...]] = field(default_factory=list)
    qdiscs: dict[int, QdiscStats] = field(default_factory=lambda: {2: QDISC0})
    qdisc_calls: list[tuple[int, int, str]] = field(default_factory=list)

    def find(self, name: str) -> Namespace:
        if name not in self.namespaces:
            raise Gone(f"netns {name}: not in /run/netns; see: ip netns")
        return Namespace(name, self.namespaces[name])

    def read_all(self) -> list[Namespace]:
        return [self.find(name) for name in self.namespaces]

    @contextlib.contextmanager
    def entered(self, one: Namespace) -> Iterator[Namespace]:
        if one.name in self.denied:
            raise Denied(f"netns {one.name}: cannot be entered; run it as root")
        if one.name in self.stale:
            raise SluiceError(f"netns {one.name}: cannot be entered; see: ip netns")
        yield one

    @contextlib.contextmanager
    def netns(self, name: str) -> Iterator[Namespace]:
        with self.entered(self.find(name)) as one:
            yield one

    def read_links(self, where: Namespace) -> list[Link]:
        return list(self.links)

    def read_module(self) -> ModuleAnswer | None:
        if not self.loaded:
            return None
        return ModuleAnswer(tuple(self.devices), tuple(self.queues))

    def set_device(self, ifindex: int, values: dict[str, int]) -> None:
        if not self.loaded:
            raise LookupError
        if ifindex in self.refuses:
            raise NetlinkError(self.refuses[ifindex])
        self.set_calls.append((ifindex, dict(values)))
        for place, device in enumerate(self.devices):
            if device.ifindex == ifindex:
                state = device.state if values["on"] else "off"
                on = bool(values["on"])
                self.devices[place] = replace(
                    device, on=on, state=state, by_hand=("on",)
                )
                return
        raise NetlinkError(errno.ENODEV)

    def set_rules(self, rules: list[Rule], reset: tuple[str, ...] = ()) -> None:
        if not self.loaded:
            raise LookupError
        if self.rules_refused:
            raise NetlinkError(self.rules_refused)
        self.rules = list(rules)
        self.reset_calls.append(tuple(reset))
        self.devices = [self._by_rule(device, reset) for device in self.devices]

    def _by_rule(self, device: Device, reset: tuple[str, ...]) -> Device:
        """As kmod/rules.c and kmod/device.c do it."""
        by_hand = device.by_hand
        if any(fnmatchcase(device.ifname, pattern) for pattern in reset):
            by_hand = ()
        found = [r for r in self.rules if fnmatchcase(device.ifname, r.pattern)]
        values: dict[str, Any] = {"stall_ms": 250, "limit": 0, "on": True}
        by_rule: list[str] = []
        if found:
            names = {name.replace("-", "_"): name for name in SETTINGS}
            given = {n: getattr(found[-1], n) for n in names}
            given = {n: value for n, value in given.items() if value is not None}
            values.update(given)
            by_rule = [names[n] for n in given if names[n] not in by_hand]
        for name in by_hand:
            values[name.replace("-", "_")] = getattr(device, name.replace("-", "_"))
        usual = "served" if device.state == "off" else device.state
        return replace(
            device,
            **values,
            state=usual if values["on"] else "off",
            by_rule=tuple(by_rule),
            by_hand=by_hand,
            rule=found[-1].origin if found else "",
            qdisc=found[-1].qdisc if found else "",
        )

    def read_rules(self) -> list[Rule] | None:
        return list(self.rules) if self.loaded else None

    def attach_qdisc(self, ifindex: int, queues: int, kind: str) -> None:
        self.qdisc_calls.append((ifindex, queues, kind))
        self.links = [
            replace(link, qdisc=kind) if link.ifindex == ifindex else link
            for link in self.links
        ]

    def remove(self, ifindex: int) -> None:
        self.links = [link for link in self.links if link.ifindex != ifindex]
        self.devices = [one for one in self.devices if one.ifindex != ifindex]


def raising(error: BaseException) -> Callable[..., NoReturn]:
    """In place of a function that fails."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


def install(patch: pytest.MonkeyPatch, folder: Path, **what: Any) -> Machine:
    """The machine in place of the system, with a config file in a folder."""
    machine = Machine(**what)
    for name in (
        "netns", "read_links", "read_module", "set_device", "attach_qdisc",
        "set_rules", "read_rules",
    ):
        patch.setattr(system, name, getattr(machine, name))
    for name in ("find", "read_all", "entered"):
        patch.setattr(namespaces, name, getattr(machine, name))
    patch.setattr(namespaces, "is_host", lambda inode: inode == 1)
    patch.setattr(namespaces, "read_names", lambda: sorted(machine.namespaces)[1:])
    patch.setattr(system, "read_qdiscs", lambda: machine.qdiscs)
    patch.setattr(system, "read_owners", lambda: machine.owners)
    patch.setattr(system, "is_root", lambda: True)
    patch.setattr(status, "LOOK_SECONDS", 0.01)
    patch.setattr(
        system, "read_module_version", lambda: "0.1.0" if machine.loaded else ""
    )
    patch.setattr(config, "PATH", folder / "sluice.conf")
    patch.setattr(config, "FOLDER", folder / "sluice.conf.d")
    patch.setattr(config, "LOCK", folder / "lock")
    return machine
