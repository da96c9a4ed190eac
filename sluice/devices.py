# SPDX-License-Identifier: GPL-2.0-or-later
"""The devices of a namespace: what the system and the module say of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sluice import config, system
from sluice.errors import SluiceError
from sluice.netlink import Device, Queue
from sluice.system import Link, ModuleAnswer, Owner

NOQUEUE = "noqueue"
LOCKLESS = "lockless"  # of a queue: its qdisc must not fill on this kernel
STOCK = "stock"  # the state of a device while the module is not loaded


@dataclass(frozen=True)
class View:
    """Everything known of one device. What only the module knows is None."""

    netns: str
    ifindex: int
    name: str
    kind: str
    up: bool
    owners: tuple[Owner, ...]
    qdisc: str
    upstream: bool | None
    on: bool | None
    state: str  # of docs/sluice.yaml, or stock
    why: str
    ring: int
    queue_count: int
    tx_dropped: int
    stall_ms: int | None
    low_percent: int | None
    target_us: int | None
    queues: tuple[Queue, ...]

    def total(self, counter: str) -> int | None:
        """The sum of a counter over the queues."""
        if self.on is None:
            return None
        return sum(getattr(queue, counter) for queue in self.queues)

    @property
    def wakes(self) -> int | None:
        timer, other = self.total("wakes_timer"), self.total("wakes_other")
        return None if timer is None or other is None else timer + other


def why_stock(link: Link, rule: config.Rule | None) -> str:
    """Without the module: what sluice would change."""
    if link.upstream:
        return "served by its application; sluice would leave it alone"
    if rule and not rule.on:
        return f"off in {config.PATH}; sluice would leave it alone"
    if link.qdisc == NOQUEUE:
        return "noqueue: sluice would have nothing to stop"
    if not link.up:
        return "link down; sluice would serve it once it is up"
    return "drops at a full ring; sluice would stop the queue"


def why(device: Device, link: Link, queues: tuple[Queue, ...]) -> str:
    """The device's state and its reason in words."""
    if device.state == "served":
        if link.qdisc == NOQUEUE:
            return "noqueue: nothing to stop"
        if any(queue.state == LOCKLESS for queue in queues):
            return "lockless qdisc: as stock, this kernel could free its packets twice"
        if any(queue.state == "stalled" for queue in queues):
            return "stalled: the reader makes no room, a full ring drops"
        if queues and all(queue.state == "unread" for queue in queues):
            return "no reader now"
        return "served"
    return {
        "off": "off",
        "down": "link down",
        "upstream": "served by its application (IFF_BACKPRESSURE)",
        "unread": "no reader yet",
        "refused": f"refused: {device.reason or 'no reason given'}",
    }[device.state]


def view(
    link: Link,
    netns: str,
    owners: list[Owner],
    answer: ModuleAnswer | None,
    rule: config.Rule | None,
) -> View | None:
    """One device; None if the module no longer knows it: it vanished."""
    device = None
    queues: tuple[Queue, ...] = ()
    if answer is not None:
        device = {d.ifindex: d for d in answer.devices}.get(link.ifindex)
        if device is None:
            return None
        queues = tuple(q for q in answer.queues if q.ifindex == link.ifindex)
    upstream = link.upstream
    if upstream is None and device and device.state == "upstream":
        upstream = True
    return View(
        netns=netns,
        ifindex=link.ifindex,
        name=link.name,
        kind=link.kind,
        up=link.up,
        owners=tuple(owners),
        qdisc=link.qdisc,
        upstream=upstream,
        on=device.on if device else None,
        state=device.state if device else STOCK,
        why=why(device, link, queues) if device else why_stock(link, rule),
        ring=max((q.ring for q in queues), default=0) or link.ring,
        queue_count=device.queues if device else link.queues,
        tx_dropped=device.tx_dropped if device else link.tx_dropped,
        stall_ms=device.stall_ms if device else None,
        low_percent=device.low_percent if device else None,
        target_us=device.target_us if device else None,
        queues=queues,
    )


def read_views(
    where: system.Namespace, owners: Mapping[str, list[Owner]] | None = None
) -> list[View]:
    """The devices of the namespace we are in, in the order they appeared.

    Who owns them is looked up unless it is given: that takes a walk through
    all processes.
    """
    answer = system.read_module()
    # After the module's answer: a device of that answer that is gone by now
    # is left out, one that came since has no answer and is left out, too.
    links = system.read_links(where)
    if owners is None:
        owners = system.read_owners() if links else {}
    lines = config.read() if answer is None else []
    views = [
        view(
            link,
            where.name,
            system.owners_of(link.name, where.inode, owners),
            answer,
            config.rule_for(link.name, lines),
        )
        for link in links
    ]
    return [one for one in views if one is not None]


def matching(views: list[View], patterns: tuple[str, ...]) -> list[View]:
    """The devices that any pattern matches; all if there is no pattern."""
    if not patterns:
        return views
    return [
        one for one in views if any(fnmatchcase(one.name, p) for p in patterns)
    ]


def check_found(views: list[View], patterns: tuple[str, ...]) -> None:
    """Every name and pattern matches something."""
    for pattern in patterns:
        if not matching(views, (pattern,)):
            what = "nothing matches" if config.is_pattern(pattern) else "no such device"
            raise SluiceError(
                f"{pattern}: {what} among the tun and tap devices; see: sluice status"
            )
