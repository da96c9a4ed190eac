# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice metrics: OpenMetrics text, for a node exporter's textfile or a timer.

A textfile is read as the older Prometheus text, which knows no stateset: so a state is
one gauge for each there could be, which both formats have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import click

from sluice import options, output, status, system
from sluice.devices import View
from sluice.errors import FINE, NO
from sluice.netlink import DEVICE_STATES, Queue


@dataclass(frozen=True)
class Sample:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Family:
    """One metric, as OpenMetrics groups its samples."""

    name: str
    type: str  # gauge or counter
    help: str
    samples: list[Sample]


# name, type, help, value; in packets where nothing else is said
QUEUE_METRICS: tuple[tuple[str, str, str, Callable[[Queue], float]], ...] = (
    ("ring_packets", "gauge", "Slots of the ring.", lambda q: q.ring),
    ("fill_packets", "gauge", "Packets in the ring.", lambda q: q.fill),
    ("limit_packets", "gauge", "Fill at which the queue stops.", lambda q: q.limit),
    ("low_packets", "gauge", "Fill at which the queue wakes.", lambda q: q.low),
    ("stops", "counter", "Times the queue was stopped.", lambda q: q.stops),
    ("stalls", "counter", "Stops whose reader made no room.", lambda q: q.stalls),
    (
        "drops",
        "counter",
        "Packets that met a full ring while the device was on.",
        lambda q: q.drops,
    ),
    (
        "rescues",
        "counter",
        "Wakes by the backstop because a timer was lost.",
        lambda q: q.rescued,
    ),
    (
        "longest_stop_seconds",
        "gauge",
        "The longest time the queue was stopped.",
        lambda q: q.longest_stop_ns / 1e9,
    ),
)


def _labels(view: View, **more: str) -> dict[str, str]:
    netns = {"netns": view.netns} if view.netns else {}
    return {"device": view.name, **netns, **more}


def _queue_labels(view: View, queue: Queue, **more: str) -> dict[str, str]:
    return _labels(view, queue=str(queue.id), **more)


def _device_families(views: list[View]) -> list[Family]:
    drops = [Sample(_labels(view), view.tx_dropped) for view in views]
    served = [view for view in views if view.on is not None]
    on = [Sample(_labels(view), float(bool(view.on))) for view in served]
    states = [
        Sample(
            _labels(view, sluice_device_state=state), float(view.state == state)
        )
        for view in served
        for state in DEVICE_STATES
    ]
    text = "Packets the driver dropped, stock's drops included."
    return [
        Family("sluice_device_drops", "counter", text, drops),
        Family("sluice_device_on", "gauge", "The operator's switch.", on),
        Family(
            "sluice_device_state", "gauge", "What is done for the device.", states
        ),
    ]


def _queue_families(views: list[View]) -> list[Family]:
    each = [(view, queue) for view in views for queue in view.queues]
    wakes = [
        Sample(_queue_labels(view, queue, by=by), count)
        for view, queue in each
        for by, count in (("timer", queue.wakes_timer), ("other", queue.wakes_other))
    ]
    families = [
        Family(
            f"sluice_queue_{name}",
            kind,
            text,
            [Sample(_queue_labels(view, queue), value(queue)) for view, queue in each],
        )
        for name, kind, text, value in QUEUE_METRICS
    ]
    text = "Times the queue was woken, by its timer or for another reason."
    return [*families, Family("sluice_queue_wakes", "counter", text, wakes)]


def families(views: list[View], loaded: bool) -> list[Family]:
    module = Family(
        "sluice_module_loaded",
        "gauge",
        "Whether the module is loaded.",
        [Sample({}, float(loaded))],
    )
    return [module, *_device_families(views), *_queue_families(views)]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def format_sample(family: Family, sample: Sample) -> str:
    name = family.name + ("_total" if family.type == "counter" else "")
    labels = ",".join(f'{key}="{_escape(v)}"' for key, v in sample.labels.items())
    value = int(sample.value) if sample.value == int(sample.value) else sample.value
    return f"{name}{'{' + labels + '}' if labels else ''} {value}"


def format_metrics(metrics: list[Family]) -> list[str]:
    lines = []
    for family in metrics:
        lines.append(f"# TYPE {family.name} {family.type}")
        if family.name.endswith("_seconds"):
            lines.append(f"# UNIT {family.name} seconds")
        lines.append(f"# HELP {family.name} {_escape(family.help)}")
        lines += [format_sample(family, sample) for sample in family.samples]
    return [*lines, "# EOF"]


@click.command()
@options.netns_option
@options.all_netns_option
@options.json_option
def metrics(netns: str, all_netns: bool, as_json: bool) -> int:
    """Print all counters as OpenMetrics text."""
    chosen = options.chosen_netns(netns, all_netns)
    views, _, failed = status.read_status(chosen, with_owners=False)
    if failed and len(chosen) == 1:
        raise failed[0]
    found = families(views, bool(system.read_module_version()))
    if as_json:
        output.say_json({"metrics": found})
    else:
        output.say(format_metrics(found))
    for error in failed:
        output.complain(str(error))
    return NO if failed else FINE
