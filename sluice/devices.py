# SPDX-License-Identifier: GPL-2.0-or-later
"""The devices of a namespace: what the system and the module report of each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from sluice import namespaces, system
from sluice.errors import Denied, Gone, SluiceError
from sluice.namespaces import Namespace
from sluice.netlink import SETTINGS, Device, Queue
from sluice.system import Link, ModuleAnswer, Owner, QdiscStats

if TYPE_CHECKING:
    from sluice import config

NOQUEUE = "noqueue"
LOCKLESS = "lockless"  # a queue whose qdisc must not fill on this kernel
STOCK = "stock"  # the state of a device while the module is not loaded

# The module's settings unless a parameter, a rule or a command changes them.
DEFAULTS = {
    "on": 1,
    "stall-ms": 250,
    "low-percent": 50,
    "limit": 0,
    "target-us": 2000,
}
UNITS = {"stall-ms": "ms", "low-percent": "%", "limit": "packets", "target-us": "us"}


@dataclass(frozen=True)
class Setting:
    """A setting of a device and who gave it."""

    name: str  # of netlink.SETTINGS
    value: int
    source: str  # default, module parameter, by hand, or FILE:LINE


@dataclass(frozen=True)
class View:
    """Everything known about one device; None where only the module could tell."""

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
    queues: tuple[Queue, ...]
    tx_packets: int = 0
    settings: tuple[Setting, ...] = ()
    rule: str = ""  # FILE:LINE of the rule that matches
    rule_qdisc: str = ""  # the qdisc that it asks for in place of noqueue
    qdisc_stats: QdiscStats = field(default_factory=QdiscStats)
    netns_process: str = ""  # the name of a process there, if ip netns has no name
    host: bool = True  # in the host's namespace

    @property
    def label(self) -> str:
        """Its name, with the namespace where that is not the command's."""
        return f"{self.name}@{self.netns}" if self.netns else self.name

    def total(self, counter: str) -> int | None:
        """The sum of a counter over the queues."""
        if self.on is None:
            return None
        total: int = sum(getattr(queue, counter) for queue in self.queues)
        return total

    @property
    def wakes(self) -> int | None:
        timer, other = self.total("wakes_timer"), self.total("wakes_other")
        return None if timer is None or other is None else timer + other

    @property
    def pace(self) -> float | None:
        """Packets per second that the readers take, as learned while stopped; None
        unless it is known of each queue."""
        if not self.queues or not all(queue.has_pace for queue in self.queues):
            return None
        return sum(1e9 / queue.reader_ns for queue in self.queues)

    def waiting(self, packets_per_second: float | None) -> float | None:
        """Seconds that a packet sent now waits behind those in qdisc and ring."""
        fill = self.total("fill")
        if fill is None:
            return None
        before = self.qdisc_stats.backlog + fill
        if not before:
            return 0.0
        return before / packets_per_second if packets_per_second else None

    @property
    def waiting_seconds(self) -> float | None:
        """By the pace that the module has learned; None where that is unknown."""
        return self.waiting(self.pace)

    @property
    def by_hand(self) -> bool:
        """Whether it was switched on or off by hand."""
        return any((one.name, one.source) == ("on", "by hand") for one in self.settings)

    def setting(self, name: str) -> int:
        found = {one.name: one.value for one in self.settings}
        return found.get(name, DEFAULTS[name])


COUNTS = (
    "packets",
    "stops",
    "stalls",
    "drops",  # by the driver
    "qdisc_drops",
    "qdisc_marks",
    "qdisc_overlimits",
)


def counts(view: View) -> dict[str, int]:
    """COUNTS of a device."""
    stats = view.qdisc_stats
    found = (
        view.tx_packets,
        view.total("stops") or 0,
        view.total("stalls") or 0,
        view.tx_dropped,
        stats.drops,
        stats.marks or 0,
        stats.overlimits,
    )
    return dict(zip(COUNTS, found))  # noqa: B905


def per_second(
    before: Mapping[str, int], now: Mapping[str, int], seconds: float
) -> dict[str, float]:
    """Rates of COUNTS; a counter that began again has none."""
    return {
        name: max(0, now[name] - before[name]) / seconds if seconds > 0 else 0.0
        for name in now
    }


def why_stock(link: Link, rule: config.Rule | None) -> str:
    """Without the module: what sluice would change."""
    if link.upstream:
        return "served by the driver; sluice would leave it alone"
    if rule and not rule.on:
        return "off by its rule; sluice would leave it alone"
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
            return "lockless qdisc: not stopped, this kernel could free packets twice"
        if any(queue.state == "stalled" for queue in queues):
            return "stalled: the reader makes no room, a full ring drops"
        if queues and all(queue.state == "unread" for queue in queues):
            return "no reader now"
        return "served"
    return {
        "off": "off",
        "down": "link down",
        "upstream": "served by the driver (IFF_BACKPRESSURE)",
        "unread": "no reader yet",
        "refused": f"refused: {device.reason or 'no reason given'}",
    }[device.state]


def settings_of(device: Device) -> tuple[Setting, ...]:
    found = []
    for name in SETTINGS:
        value = int(getattr(device, name.replace("-", "_")))
        if name in device.by_hand:
            source = "by hand"
        elif name in device.by_rule:
            source = device.rule
        else:
            source = "default" if value == DEFAULTS[name] else "module parameter"
        found.append(Setting(name, value, source))
    return tuple(found)


def view(
    link: Link,
    where: Namespace,
    owners: list[Owner],
    answer: ModuleAnswer | None,
    rules: config.Rules | None = None,
    qdiscs: Mapping[int, QdiscStats] | None = None,
) -> View | None:
    """One device; None if it vanished, so that the module does not report it."""
    device = None
    queues: tuple[Queue, ...] = ()
    host = namespaces.is_host(where.inode)
    if answer is not None:
        device = {d.ifindex: d for d in answer.devices}.get(link.ifindex)
        if device is None:
            return None
        queues = tuple(q for q in answer.queues if q.ifindex == link.ifindex)
    upstream = link.upstream
    if upstream is None and device and device.state == "upstream":
        upstream = True
    entry = rules.entry_for(link.name, host) if rules else None
    return View(
        netns=where.name,
        netns_process=where.process,
        host=host,
        ifindex=link.ifindex,
        name=link.name,
        kind=link.kind,
        up=link.up,
        owners=tuple(owners),
        qdisc=link.qdisc,
        qdisc_stats=(qdiscs or {}).get(link.ifindex, QdiscStats()),
        upstream=upstream,
        on=device.on if device else None,
        state=device.state if device else STOCK,
        why=why(device, link, queues) if device else
        why_stock(link, entry.rule if entry else None),
        ring=max((q.ring for q in queues), default=0) or link.ring,
        queue_count=device.queues if device else link.queues,
        tx_packets=link.tx_packets,
        tx_dropped=device.tx_dropped if device else link.tx_dropped,
        settings=settings_of(device) if device else (),
        rule=device.rule if device else "",
        rule_qdisc=device.qdisc if device else "",
        queues=queues,
    )


Owners = Mapping[str, list[Owner]]


def read_views(
    where: Namespace, read_owners: Callable[[], Owners] | None = None
) -> list[View]:
    """The devices of the current namespace, in the order they appeared.

    To look the owners up takes a walk through all processes: where there is no device,
    it is not done.
    """
    answer = system.read_module()
    # Read after the module's answer: a device that has vanished since, or appeared
    # since, is in only one of the two and is left out.
    links = system.read_links(where)
    if not links:
        return []
    owners = (read_owners or system.read_owners)()
    rules = None
    if answer is None:
        from sluice import config  # takes long to import

        rules = config.read_all()
    qdiscs = system.read_qdiscs()
    views = [
        view(
            link,
            where,
            system.owners_of(link.name, where.inode, owners),
            answer,
            rules,
            qdiscs,
        )
        for link in links
    ]
    return [one for one in views if one is not None]


@dataclass(frozen=True)
class Seen:
    """The devices of several namespaces."""

    views: list[View]
    failed: list[SluiceError]  # why some namespaces could not be entered
    namespaces: int  # how many were entered
    hidden: int = 0  # how many only root may enter


def read_machine(netns: str | None = None, with_owners: bool = True) -> Seen:
    """The devices of all namespaces, or of the one that is named."""
    chosen = namespaces.read_all() if netns is None else [namespaces.find(netns)]
    owners = functools.cache(system.read_owners if with_owners else dict)
    views: list[View] = []
    failed: list[SluiceError] = []
    hidden = 0
    for one in chosen:
        try:
            with namespaces.entered(one) as where:
                views += read_views(where, owners)
        except Gone as error:
            if netns is not None:
                raise error
        except Denied as error:
            if netns is not None:
                raise error
            hidden += 1
        except SluiceError as error:
            if netns is not None:
                raise error
            failed.append(error)
    return Seen(views, failed, len(chosen) - len(failed) - hidden, hidden)


def is_meant(name: str, patterns: Sequence[str]) -> bool:
    """Whether any pattern matches the name, or there is none."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def matching(views: list[View], patterns: Sequence[str]) -> list[View]:
    """The devices that any pattern matches; all if there is no pattern."""
    return [one for one in views if is_meant(one.name, patterns)]


def suggestion(word: str, known: Sequence[str], prefix: str = "") -> str:
    """A question that names similar words; empty if there are none.

    prefix: what all of them begin with, which makes none of them similar.
    """
    import difflib  # only after a mistake

    rests = sorted({one.removeprefix(prefix) for one in known})
    found = difflib.get_close_matches(word.removeprefix(prefix), rests, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(prefix + one for one in found)}?" if found else ""


def check_found(views: list[View], patterns: Sequence[str]) -> None:
    """Raise an error if a name or a pattern matches nothing."""
    import glob

    from sluice import config

    for pattern in patterns:
        if matching(views, (pattern,)):
            continue
        what = "nothing matches" if config.is_pattern(pattern) else "no such device"
        # As a pattern that matches only that name: [x] matches x.
        next_step = suggestion(pattern, [glob.escape(one.name) for one in views])
        raise SluiceError(f"{pattern}: {what}; {next_step or 'see: sluice status'}")
