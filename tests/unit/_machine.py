# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine of recorded answers in place of the system, for the command."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from sluice import config, system
from sluice.errors import Gone, SluiceError
from sluice.netlink import Device, Queue
from sluice.system import Link, ModuleAnswer, Namespace, Owner

QEMU = Owner(pid=4711, command="qemu-system-x86", vhost=True, netns=1)
TAP0 = Link(2, "tap0", "tap", True, "fq_codel", 1000, 1, 17, False)
TUN0 = Link(3, "tun0", "tun", True, "noqueue", 500, 1, 0, False)
DEVICE0 = Device(2, "tap0", True, "served", 1, 250, 50, 0, 2000, 17)
DEVICE1 = Device(3, "tun0", True, "served", 1, 250, 50, 0, 2000, 0)
QUEUE0 = Queue(
    ifindex=2,
    id=0,
    state="open",
    ring=1000,
    fill=312,
    limit=976,
    low=488,
    stops=1204,
    wakes_timer=1203,
    wakes_other=1,
    stalls=0,
    longest_stop_ns=12_300_000,
    drops=0,
    reader_ns=5000,
    rescued=0,
)
QUEUE1 = replace(QUEUE0, ifindex=3, state="noqueue", ring=500, limit=476, fill=0)


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
    set_calls: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    qdisc_calls: list[tuple[int, int, str]] = field(default_factory=list)

    @contextlib.contextmanager
    def netns(self, name: str) -> Iterator[Namespace]:
        if name in self.stale:
            raise SluiceError(f"netns {name}: cannot be entered; is it stale?")
        if name not in self.namespaces:
            raise Gone(f"netns {name}: there is none; see: ip netns")
        yield Namespace(name, self.namespaces[name], None)

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
                self.devices[place] = replace(device, on=on, state=state)
                return
        raise NetlinkError(errno.ENODEV)

    def attach_qdisc(self, ifindex: int, queues: int, kind: str) -> None:
        self.qdisc_calls.append((ifindex, queues, kind))
        self.links = [
            replace(link, qdisc=kind) if link.ifindex == ifindex else link
            for link in self.links
        ]

    def remove(self, ifindex: int) -> None:
        self.links = [link for link in self.links if link.ifindex != ifindex]
        self.devices = [one for one in self.devices if one.ifindex != ifindex]


def install(patch: pytest.MonkeyPatch, folder: Path, **what: Any) -> Machine:
    """The machine in place of the system, with a config file in a folder."""
    machine = Machine(**what)
    for name in ("netns", "read_links", "read_module", "set_device", "attach_qdisc"):
        patch.setattr(system, name, getattr(machine, name))
    patch.setattr(system, "read_owners", lambda: machine.owners)
    patch.setattr(system, "is_root", lambda: True)
    patch.setattr(system, "read_netns_names", lambda: sorted(machine.namespaces)[1:])
    patch.setattr(
        system, "read_module_version", lambda: "0.1.0" if machine.loaded else ""
    )
    patch.setattr(config, "PATH", folder / "sluice.conf")
    patch.setattr(config, "LOCK", folder / "lock")
    return machine
