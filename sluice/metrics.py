# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice metrics: OpenMetrics text, for a node exporter's textfile or a timer.

A textfile is read as the older Prometheus format, which has no stateset. So each
possible state is a gauge, which both formats have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Union

import click
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest

from sluice import devices, options, output, system
from sluice.devices import View
from sluice.errors import FINE, NO
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
DEVICE_METRICS: tuple[tuple[str, str, str, Callable[[View], float]], ...] = (
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


Family = Union[CounterMetricFamily, GaugeMetricFamily]


def _family(name: str, kind: str, text: str, labels: tuple[str, ...]) -> Family:
    if kind == "counter":
        return CounterMetricFamily(name, text, labels=labels)
    unit = "seconds" if name.endswith("_seconds") else ""
    return GaugeMetricFamily(name, text, labels=labels, unit=unit)


def _label(name: str) -> str:
    """Printable, and another one for each name: a scrape with two equal is refused."""
    if name.isprintable() and "\\" not in name:
        return name
    return name.encode("unicode_escape").decode()


def _of_device(view: View) -> tuple[str, str]:
    return (_label(view.name), _label(view.netns))


def _device_families(views: list[View]) -> Iterator[Metric]:
    for name, kind, text, value in DEVICE_METRICS:
        family = _family(f"sluice_device_{name}", kind, text, DEVICE_LABELS)
        for view in views:
            family.add_metric(_of_device(view), value(view))
        yield family
    known = [view for view in views if view.on is not None]
    on = _family("sluice_device_on", "gauge", "The operator's switch.", DEVICE_LABELS)
    for view in known:
        on.add_metric(_of_device(view), float(bool(view.on)))
    yield on
    labels = (*DEVICE_LABELS, "state")
    text = "What is done for the device: 1 for its state, 0 for all others."
    states = _family("sluice_device_state", "gauge", text, labels)
    for view in known:
        for state in DEVICE_STATES:
            states.add_metric((*_of_device(view), state), float(view.state == state))
    yield states


def _queue_families(views: list[View]) -> Iterator[Metric]:
    each = [(view, queue) for view in views for queue in view.queues]
    for name, kind, text, value in QUEUE_METRICS:
        family = _family(f"sluice_queue_{name}", kind, text, QUEUE_LABELS)
        for view, queue in each:
            number = value(queue)
            if number is not None:  # known
                family.add_metric((*_of_device(view), str(queue.id)), number)
        yield family
    text = "Times the queue was woken, by its timer or for another reason."
    wakes = _family("sluice_queue_wakes", "counter", text, (*QUEUE_LABELS, "by"))
    for view, queue in each:
        labels = (*_of_device(view), str(queue.id))
        wakes.add_metric((*labels, "timer"), queue.wakes_timer)
        wakes.add_metric((*labels, "other"), queue.wakes_other)
    yield wakes


class Collected:
    """The devices as a registry of prometheus_client."""

    def __init__(self, views: list[View], loaded: bool) -> None:
        self._views, self._loaded = views, loaded

    def collect(self) -> Iterator[Metric]:
        text = "Whether the module is loaded."
        yield GaugeMetricFamily("sluice_module_loaded", text, float(self._loaded))
        yield from _device_families(self._views)
        yield from _queue_families(self._views)


def metrics_json(collected: Collected) -> list[Mapping[str, object]]:
    return [
        {
            "name": family.name,
            "type": family.type,
            "help": family.documentation,
            "samples": [
                {"name": one.name, "labels": one.labels, "value": one.value}
                for one in family.samples
            ],
        }
        for family in collected.collect()
    ]


@click.command()
@options.netns_option
@options.json_option
def metrics(netns: str | None, as_json: bool) -> int:
    """Print all counters as OpenMetrics text.

    Of all network namespaces, unless --netns names one.
    """
    seen = devices.read_machine(netns, with_owners=False)
    found = Collected(seen.views, bool(system.read_module_version()))
    if as_json:
        output.say_json({"metrics": metrics_json(found)})
    else:
        sys.stdout.write(generate_latest(found).decode())
        sys.stdout.flush()
    for error in seen.failed:
        output.complain(str(error))
    return NO if seen.failed else FINE
