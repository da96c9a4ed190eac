# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice metrics: what the devices and queues count, as Prometheus reads it.

By default in its text format, which node_exporter's textfile collector takes; with
--openmetrics in the later one. Each possible state is a gauge, which both formats have.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from sluice import VERSION, config, devices, options, output, rules, system
from sluice.devices import View
from sluice.errors import FINE, NO, NetlinkError, SluiceError
from sluice.netlink import DEVICE_STATES, Queue

DEVICE_LABELS = ("device", "netns")
QUEUE_LABELS = (*DEVICE_LABELS, "queue")

# name, type, help, value; in packets unless the help names a unit
QUEUE_METRICS: tuple[tuple[str, str, str, Callable[[Queue], float | None]], ...] = (
    ("ring_packets", "gauge", "Slots of the ring.", lambda q: q.ring),
    ("fill_packets", "gauge", "Packets in the ring.", lambda q: q.fill),
    ("limit_packets", "gauge", "Fill at which the queue stops.", lambda q: q.limit),
    ("low_packets", "gauge", "Fill at which the queue wakes.", lambda q: q.low),
    ("stops", "counter", "Times the queue was stopped.", lambda q: q.stops),
    (
        "stalls",
        "counter",
        "Stops that ended because the reader was too slow.",
        lambda q: q.stalls,
    ),
    (
        "stalled",
        "gauge",
        "Whether senders pass because the reader is too slow.",
        lambda q: float(q.state == "stalled"),
    ),
    (
        "drops",
        "counter",
        "Packets that met a full ring while the queue could be stopped (not with "
        "noqueue or a lockless qdisc); see sluice_device_drops for all.",
        lambda q: q.drops,
    ),
    (
        "rescues",
        "counter",
        "Reviews by the backstop because a timer was lost.",
        lambda q: q.rescued,
    ),
    (
        "reader_seconds",
        "gauge",
        "The time the reader takes for a packet, as learned while stopped.",
        lambda q: q.reader_ns / 1e9 if q.has_pace else None,
    ),
    (
        "longest_stop_seconds",
        "gauge",
        "The longest time the queue was stopped.",
        lambda q: q.longest_stop_ns / 1e9,
    ),
)


# name, type, help, value
DEVICE_METRICS: tuple[tuple[str, str, str, Callable[[View], float | None]], ...] = (
    (
        "drops",
        "counter",
        "Packets the driver dropped since the device was made, also while it was "
        "off or the module was not loaded (tx_dropped).",
        lambda view: view.tx_dropped,
    ),
    ("packets", "counter", "Packets the reader took.", lambda view: view.tx_packets),
    (
        "qdisc_backlog_packets",
        "gauge",
        "Packets that wait in the qdisc.",
        lambda view: view.qdisc_stats.backlog,
    ),
    (
        "qdisc_backlog_bytes",
        "gauge",
        "Bytes that wait in the qdisc.",
        lambda view: view.qdisc_stats.backlog_bytes,
    ),
    (
        "waiting_seconds",
        "gauge",
        "How long a packet that is sent now waits in qdisc and ring, by the reader's "
        "pace as learned while stopped.",
        lambda view: view.waiting_seconds,
    ),
    (
        "qdisc_drops",
        "counter",
        "Packets the qdisc dropped since it was attached.",
        lambda view: view.qdisc_stats.drops,
    ),
    (
        "qdisc_overlimits",
        "counter",
        "Times the qdisc met one of its limits.",
        lambda view: view.qdisc_stats.overlimits,
    ),
    (
        "qdisc_marks",
        "counter",
        "Packets the qdisc marked with ECN instead of dropping them.",
        lambda view: view.qdisc_stats.marks or 0,
    ),
)


@dataclass
class Family:
    """A metric and its samples: values by their labels."""

    name: str  # without the suffix of a counter
    type: str  # gauge or counter
    help: str
    labels: tuple[str, ...] = ()
    samples: list[tuple[dict[str, str], float]] = field(default_factory=list)

    @property
    def series(self) -> str:
        return f"{self.name}_total" if self.type == "counter" else self.name

    def add(self, labels: Sequence[str], value: float) -> None:
        self.samples.append((dict(zip(self.labels, labels)), value))  # noqa: B905


def _label(name: str) -> str:
    """Printable, and another one for each name: a scrape with two equal is refused."""
    if name.isprintable() and "\\" not in name:
        return name
    return name.encode("unicode_escape").decode()


def netns_labels(views: Sequence[View]) -> dict[str, str]:
    """The label of each namespace: its name of ip netns, else that of its first process.

    The number of a process or a path would be another one after each restart of a
    container. Namespaces whose processes have the same name are numbered.
    """
    found: dict[str, str] = {}
    for view in views:
        if view.netns in found:
            continue
        name = label = _label(view.netns_process or view.netns)
        number = 1
        while label in found.values():
            number += 1
            label = f"{name}#{number}"
        found[view.netns] = label
    return found


@dataclass(frozen=True)
class Seen:
    """What the metrics are made of."""

    views: Sequence[View]
    module: str  # its version, "" if it is not loaded
    rules: config.Rules | None = None  # of the files; None: they cannot be read
    differ: int | None = None  # rules of files and module; None: unknown

    def labels(self, view: View, names: Mapping[str, str]) -> tuple[str, str]:
        return _label(view.name), names[view.netns]


# name, help, value; all are gauges
MACHINE_METRICS: tuple[tuple[str, str, Callable[[Seen], float | None]], ...] = (
    ("module_loaded", "Whether the module is loaded.", lambda seen: bool(seen.module)),
    (
        "metrics_timestamp_seconds",
        "When these metrics were read, seconds since 1970.",
        lambda _: round(time.time(), 3),
    ),
    (
        "rules",
        "Rules in the files.",
        lambda seen: None if seen.rules is None else len(seen.rules.entries),
    ),
    (
        "rules_wrong",
        "Lines of the files that are no rule, so that no file can be loaded.",
        lambda seen: None if seen.rules is None else len(seen.rules.wrongs),
    ),
    (
        "rules_differ",
        "Rules that only the files have, or only the module.",
        lambda seen: seen.differ,
    ),
)


def _machine_families(seen: Seen) -> Iterator[Family]:
    for name, text, value in MACHINE_METRICS:
        family = Family(f"sluice_{name}", "gauge", text)
        number = value(seen)
        if number is not None:  # known
            family.add((), number)
        yield family
    text = "Versions of the command and of the loaded module."
    build = Family("sluice_build_info", "gauge", text, ("command", "module"))
    build.add((VERSION, seen.module), 1)
    yield build


def _device_families(seen: Seen, names: Mapping[str, str]) -> Iterator[Family]:
    for name, kind, text, value in DEVICE_METRICS:
        family = Family(f"sluice_device_{name}", kind, text, DEVICE_LABELS)
        for view in seen.views:
            number = value(view)
            if number is not None:  # known
                family.add(seen.labels(view, names), number)
        yield family
    known = [view for view in seen.views if view.on is not None]
    on = Family("sluice_device_on", "gauge", "The operator's switch.", DEVICE_LABELS)
    for view in known:
        on.add(seen.labels(view, names), bool(view.on))
    yield on
    text = "What is done for the device: 1 for its state, 0 for all others."
    states = Family("sluice_device_state", "gauge", text, (*DEVICE_LABELS, "state"))
    for view in known:
        for state in DEVICE_STATES:
            states.add((*seen.labels(view, names), state), view.state == state)
    yield states


def _queue_families(seen: Seen, names: Mapping[str, str]) -> Iterator[Family]:
    each = [
        ((*seen.labels(view, names), str(queue.id)), queue)
        for view in seen.views
        for queue in view.queues
    ]
    for name, kind, text, value in QUEUE_METRICS:
        family = Family(f"sluice_queue_{name}", kind, text, QUEUE_LABELS)
        for labels, queue in each:
            number = value(queue)
            if number is not None:  # known
                family.add(labels, number)
        yield family
    text = "Times the queue was woken, by its timer or for another reason."
    wakes = Family("sluice_queue_wakes", "counter", text, (*QUEUE_LABELS, "by"))
    for labels, queue in each:
        wakes.add((*labels, "timer"), queue.wakes_timer)
        wakes.add((*labels, "other"), queue.wakes_other)
    yield wakes


def families(seen: Seen) -> list[Family]:
    names = netns_labels(seen.views)
    return [
        *_machine_families(seen),
        *_device_families(seen, names),
        *_queue_families(seen, names),
    ]


# Formats


def _escaped(text: str, quote: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quote else text


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(labels[key], True)}"' for key in labels)
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def format_text(found: Sequence[Family], openmetrics: bool = False) -> str:
    """Prometheus' text format, or OpenMetrics."""
    lines = []
    for family in found:
        name = family.name if openmetrics else family.series
        lines.append(f"# HELP {name} {_escaped(family.help)}")
        lines.append(f"# TYPE {name} {family.type}")
        if openmetrics and name.endswith("_seconds"):
            lines.append(f"# UNIT {name} seconds")
        samples = family.samples
        lines += [_sample(family.series, labels, value) for labels, value in samples]
    lines += ["# EOF"] if openmetrics else []
    return "\n".join([*lines, ""])


def metrics_json(found: Sequence[Family]) -> list[Mapping[str, object]]:
    return [
        {
            "name": family.name,
            "type": family.type,
            "help": family.help,
            "samples": [
                {"name": family.series, "labels": labels, "value": float(value)}
                for labels, value in family.samples
            ],
        }
        for family in found
    ]


# The command


def see(views: Sequence[View]) -> Seen:
    """The devices, with what else there is; the rules where they may be read."""
    found, differ = None, None
    with contextlib.suppress(SluiceError, NetlinkError, OSError):
        found = config.read_all()
        loaded = system.read_rules()
        differ = None if loaded is None else len(rules.drift(found, loaded))
    return Seen(views, system.read_module_version(), found, differ)


def write(path: Path, text: str) -> None:
    """Replace the file at once: a collector never reads half of it, and whatever the
    umask is it may read it. The name of the new file does not end as it looks for."""
    if path.exists() and not path.is_file():  # root could replace a device
        raise SluiceError(f"{path}: not a regular file; give a file, or no --output")
    try:
        path = Path(os.path.realpath(path))
        fd, new = tempfile.mkstemp("~", f".{path.name}.", path.parent)
        try:
            with open(fd, "w", encoding="utf-8") as handle:
                handle.write(text)
                os.fchmod(fd, 0o644)
            os.rename(new, path)
        except BaseException:
            os.unlink(new)
            raise
    except OSError as error:
        raise config.refused(path, error) from error


@click.command()
@click.option(
    "--openmetrics", is_flag=True, help="Print OpenMetrics, not Prometheus' text format."
)
@click.option(
    "--output",
    "path",
    type=click.Path(path_type=Path, dir_okay=False, readable=False),
    metavar="FILE",
    help="Replace this file, which everybody may read.",
)
@options.netns_option
@options.json_option
def metrics(
    openmetrics: bool, path: Path | None, netns: str | None, as_json: bool
) -> int:
    """Print all counters for Prometheus.

    Of all network namespaces, unless --netns names one. For node_exporter's
    textfile collector: --output FOLDER/sluice.prom
    """
    if as_json and (path or openmetrics):
        raise click.UsageError("--json excludes --output and --openmetrics")
    read = devices.read_machine(netns, with_owners=False)
    found = families(see(read.views))
    if as_json:
        output.say_json({"metrics": metrics_json(found)})
    elif path:
        write(path, format_text(found, openmetrics))
    else:
        # UTF-8 in every locale, as both formats demand.
        sys.stdout.buffer.write(format_text(found, openmetrics).encode())
        sys.stdout.flush()
    for error in read.failed:
        output.complain(str(error))
    return NO if read.failed else FINE
