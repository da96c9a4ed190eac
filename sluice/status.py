# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice status: the state of every tun and tap device, and the reason for it."""

from __future__ import annotations

import glob
import shlex
import time
from typing import NamedTuple

import click

from sluice import devices, namespaces, options, output, system
from sluice.devices import NOQUEUE, STOCK, UNITS, Seen, View
from sluice.errors import FINE, NO
from sluice.netlink import ASSUMED_READER_NS, Queue
from sluice.output import Column, Text, short

ZEROES = {"limit": ", as much as is safe", "target-us": ", the whole ring"}
LOOK_SECONDS = 0.5  # between the two looks at a named device, for its rates


def format_owners(view: View, seen: bool = True) -> str:
    if not view.owners:
        return "none" if seen else "unknown; run it as root"
    return ", ".join(
        f"{owner.command} ({owner.pid})" + (" with vhost-net" if owner.vhost else "")
        for owner in view.owners
    )


def format_netns(view: View) -> str:
    """The namespace as --netns takes it; of one without a name also a process."""
    process = f" ({view.netns_process})" if view.netns_process else ""
    return f"{view.netns}{process}" if view.netns else "this one"


# The table: one line for each device


def state_word(view: View) -> str:
    """The state in one word."""
    if view.state == "served":
        if view.qdisc == NOQUEUE:
            return NOQUEUE
        for state in ("stalled", "stopped", devices.LOCKLESS):
            if any(queue.state == state for queue in view.queues):
                return state
        if view.queues and all(queue.state == "unread" for queue in view.queues):
            return "unread"
        return "on"
    return view.state


STATE_STYLES = {
    "on": output.GOOD,
    "stopped": output.GOOD,
    "stalled": output.BAD,
    "refused": output.BAD,
    "off": output.DIM,
    "down": output.DIM,
    "unread": output.DIM,
}


def worst_queue(view: View) -> Queue:
    """The queue that loses, or else the fullest."""
    return max(
        view.queues,
        key=lambda queue: (queue.state == "stalled", queue.fill / max(1, queue.ring)),
    )


def _stops_at(view: View, queue: Queue) -> str:
    served = view.state == "served" and view.qdisc != NOQUEUE
    return f", stops at {queue.limit}" if served and queue.limit else ""


def format_fill(view: View) -> str:
    """The packets in the ring, its slots, and the fill at which it stops; of several
    queues those of the worst."""
    if not view.queues:
        return f"{view.ring} slots"
    worst = worst_queue(view)
    which = f"queue {worst.id}: " if len(view.queues) > 1 else ""
    return f"{which}{worst.fill} of {worst.ring}{_stops_at(view, worst)}"


def format_seconds(seconds: float | None) -> str:
    """A time in at most six characters; -: unknown."""
    if seconds is None:
        return "-"
    if seconds == 0:
        return "0"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * size:
            return f"{short(seconds / size)}{unit}"
    return f"{short(seconds * 1e6)}us"


def _count(value: int | None, style: str = "") -> Text:
    text = "-" if value is None else short(value)
    return output.styled(text, style if value else "")


COLUMNS = (
    Column("DEVICE", least=10),
    Column("STATE"),
    Column("QDISC", spare=6),
    Column("FILL", spare=7),
    Column("WAIT", right=True, spare=5),
    Column("STOPS", right=True, spare=1),
    Column("STALLS", right=True, spare=4),
    Column("DROPS", right=True, spare=8),
    Column("QDROPS", right=True, spare=2),
    Column("OWNER", least=5, spare=3),
)
NETNS_COLUMN = Column("NETNS", least=8)


def format_row(view: View) -> list[str | Text]:
    state = state_word(view)
    owner = view.owners[0].command if view.owners else "-"
    more = f" +{len(view.owners) - 1}" if len(view.owners) > 1 else ""
    stats = view.qdisc_stats
    return [
        output.bold(view.name),
        output.styled(state, STATE_STYLES.get(state, output.NOTABLE)),
        view.qdisc or "-",
        format_fill(view),
        format_seconds(view.waiting_seconds),
        _count(view.total("stops")),
        _count(view.total("stalls"), output.BAD),
        _count(view.tx_dropped, output.BAD),
        "-" if view.qdisc == NOQUEUE else short(stats.drops),
        owner + more,
    ]


# What is wrong, in words


def _readers(view: View) -> str:
    names = sorted({owner.command for owner in view.owners})
    return " and ".join(names) if 0 < len(names) < 3 else "its reader"


class Problem(NamedTuple):
    text: str
    fix: str = "see: sluice doctor"
    style: str = output.BAD


def find_problem(view: View) -> Problem | None:
    """What is wrong with a device, and what to do."""
    state = state_word(view)
    if state == "stalled":
        text = f"stalled: {_readers(view)} reads too little, a full ring drops"
        return Problem(text)
    if state == "refused":
        return Problem(view.why, "run: sluice doctor --report")
    if state == NOQUEUE and view.on:
        fix = f"run: sluice on --qdisc {view.rule_qdisc or 'fq_codel'} NAME"
        text = "noqueue: nothing to stop, a full ring drops"
        return Problem(text, fix, output.NOTABLE)
    if state == devices.LOCKLESS:
        text = "lockless: its qdisc must not fill, a full ring drops"
        return Problem(text, style=output.NOTABLE)
    if view.total("drops"):
        return Problem("packets were lost at a full ring while on")
    return None


NAMED = 3  # devices in a line of a problem


def format_problems(views: list[View]) -> list[Text]:
    """A line for each kind of problem: whose it is, what it is, and what to do."""
    found: dict[Problem, list[View]] = {}
    for view in views:
        problem = find_problem(view)
        if problem:
            found.setdefault(problem, []).append(view)
    lines = []
    for (text, fix, style), several in found.items():
        names = [view.label for view in several[:NAMED]]
        if len(several) > NAMED:
            names.append(f"{len(several) - NAMED} more")
        if len(several) == 1:  # a name may have any character that a shell reads
            fix = fix.replace("NAME", shlex.quote(glob.escape(several[0].name)))
        whole = output.wrap(f"{', '.join(names)}: {text}; {fix}", rest="  ")
        lines += [output.styled(line, style) for line in whole]
    return lines


def say_devices(views: list[View]) -> None:
    """Print a table; the namespace is a column if there is more than one."""
    several = any(view.netns for view in views)
    columns = list(COLUMNS)
    rows = [format_row(view) for view in views]
    if several:
        columns.insert(1, NETNS_COLUMN)
        for view, row in zip(views, rows):  # noqa: B905
            row.insert(1, format_netns(view) if view.netns else "")
    output.say_table(columns, rows)
    output.say(format_problems(views))


# The details of one device

Key = tuple[str, int]
Rates = dict[str, float]  # of devices.COUNTS


def key_of(view: View) -> Key:
    return view.netns, view.ifindex


def format_ring(view: View) -> str:
    if not view.total("ring"):  # only the module knows the fill of a ring
        each = f"{view.queue_count} x " if view.queue_count > 1 else ""
        return f"{each}{view.ring} packets"
    fill, ring = view.total("fill"), view.total("ring")
    if len(view.queues) > 1:
        return f"{fill} of {ring} packets in {len(view.queues)} queues"
    (queue,) = view.queues
    wakes = f", wakes at {queue.low}" if _stops_at(view, queue) else ""
    return f"{fill} of {ring} packets{_stops_at(view, queue)}{wakes}"


def format_queue(view: View, queue: Queue) -> str:
    """One of several queues."""
    state = "off" if queue.state == "idle" else queue.state
    wakes = f", wakes at {queue.low}" if _stops_at(view, queue) else ""
    return (
        f"{state}, {queue.fill} of {queue.ring} packets{_stops_at(view, queue)}{wakes}; "
        f"{queue.stops} stops, {queue.stalls} stalls, {queue.drops} drops"
    )


def format_waiting(view: View, rates: Rates | None) -> str:
    """How long a packet waits, by the pace of the last half second or the learned one."""
    measured = rates["packets"] if rates else 0.0
    seconds = view.waiting(measured or view.pace)
    if seconds is None:
        return "unknown: it takes the reader's pace"
    source = "in the last half second" if measured else "while stopped"
    more = f", at the reader's pace {source}" if seconds else ""
    return f"{format_seconds(seconds)} for a packet that is sent now{more}"


def format_qdisc(view: View) -> str:
    stats = view.qdisc_stats
    if view.qdisc == NOQUEUE:
        return view.qdisc
    marks = "" if stats.marks is None else f", {stats.marks} ECN marks"
    return (
        f"{view.qdisc}; backlog {stats.backlog} packets, {stats.backlog_bytes} bytes; "
        f"{stats.drops} drops{marks}, {stats.overlimits} overlimits since attached"
    )


def format_reader(view: View) -> str:
    """The pace of the readers, which the module measures while a queue is stopped."""
    paces = [1e9 / queue.reader_ns for queue in view.queues if queue.has_pace]
    if not paces:
        assumed = short(1e9 / ASSUMED_READER_NS)
        return f"pace not known yet, {assumed} packets/s assumed until a queue is stopped"
    each = " each" if len(paces) > 1 else ""
    return f"about {short(sum(paces) / len(paces))} packets/s{each} while stopped"


def format_counts(view: View) -> str:
    text = f"{view.total('stops')}, wakes {view.wakes}, stalls {view.total('stalls')}"
    rescued = view.total("rescued")
    text += f", rescued {rescued}" if rescued else ""
    longest = max((queue.longest_stop_ns for queue in view.queues), default=0)
    return f"{text}, longest stop {longest / 1e6:.1f} ms" if longest else text


def format_rates(view: View, rates: Rates) -> str:
    """Per second, between the two looks."""
    kinds = ["packets", "stops", "stalls"] if view.on is not None else ["packets"]
    parts = [f"{short(rates[kind])} {kind}/s" for kind in kinds]
    text = f"{', '.join(parts)}, {short(rates['drops'])} drops/s at the ring"
    if view.qdisc == NOQUEUE:
        return text
    marks = f", {short(rates['qdisc_marks'])} ECN marks/s"
    return (
        f"{text}; in the qdisc {short(rates['qdisc_drops'])} drops/s"
        f"{'' if view.qdisc_stats.marks is None else marks}, "
        f"{short(rates['qdisc_overlimits'])} overlimits/s"
    )


def format_drops(view: View) -> str:
    if view.on is None:
        return f"{view.tx_dropped}"
    return (
        f"{view.total('drops')} at a full ring while on, "
        f"{view.tx_dropped} by the driver in all"
    )


def format_settings(view: View) -> list[str]:
    """Each setting, its unit and where it comes from."""
    lines = []
    for one in view.settings:
        if one.name == "on":
            value = "on" if one.value else "off"
        else:
            zero = ZEROES.get(one.name) if one.value == 0 else None
            value = f"{one.name} {one.value}{zero or ' ' + UNITS[one.name]}"
        lines.append(f"{value} ({one.source})")
    if view.rule:
        more = f", qdisc {view.rule_qdisc} in place of noqueue"
        lines.append(f"rule {view.rule}" + (more if view.rule_qdisc else ""))
    return lines


def _style_of_why(view: View) -> str:
    if view.why.startswith(("refused", "stalled")):
        return output.BAD
    return output.GOOD if view.why == "served" else output.NOTABLE


def format_device(
    view: View, seen: bool = True, rates: Rates | None = None
) -> list[str | Text]:
    switch = {None: STOCK, True: "on", False: "off"}[view.on]
    what = switch if view.why == switch else f"{switch}, {view.why}"
    head, *more = output.wrap(what, f"{view.name} ({view.kind}): ", "  ")
    styled = output.marked(head, view.why, _style_of_why(view))
    styled.stylize(output.BOLD, 0, len(view.name))
    lines: list[str | Text] = [styled, *more]
    lines += output.wrap(format_owners(view, seen), "  owner    ")
    if view.netns:
        lines += output.wrap(format_netns(view), "  netns    ")
    lines += output.wrap(format_qdisc(view), "  qdisc    ")
    lines += output.wrap(format_ring(view), "  ring     ")
    if view.on is not None:
        if len(view.queues) > 1:
            for queue in view.queues:
                lines += output.wrap(format_queue(view, queue), f"  {queue.id:>8} ")
        lines += output.wrap(format_reader(view), "  reader   ")
        lines += output.wrap(format_waiting(view, rates), "  wait     ")
        lines += output.wrap(format_counts(view), "  stops    ")
    lines += output.wrap(format_drops(view), "  drops    ")
    if rates:
        lines += output.wrap(format_rates(view, rates), "  rates    ")
    for number, text in enumerate(format_settings(view)):
        lines += output.wrap(text, "  settings " if not number else " " * 11)
    return lines


def say_details(views: list[View], rates: dict[Key, Rates]) -> None:
    seen = system.is_root()
    for number, view in enumerate(views):
        output.say([""] if number else [])
        output.say(format_device(view, seen, rates[key_of(view)]))


# JSON


def view_json(view: View, rates: Rates | None) -> dict[str, object]:
    """A view as JSON, with the sums of the counters."""
    names = ("fill", "stops", "stalls", "drops", "rescued")
    totals = {name: view.total(name) for name in names}
    waiting = view.waiting((rates or {}).get("packets") or view.pace)
    more = {"wakes": view.wakes, "per_second": rates, "waiting_seconds": waiting}
    return {**vars(view), **totals, **more}


def status_json(
    views: list[View], rates: dict[Key, Rates], hidden: int
) -> dict[str, object]:
    version = system.read_module_version()
    module = {"loaded": bool(version), "version": version}
    found = [view_json(view, rates.get(key_of(view))) for view in views]
    return {"module": module, "devices": found, "hidden_namespaces": hidden}


def say_heading(seen: Seen, netns: str | None) -> None:
    if not system.read_module_version():
        why = ", as this kernel is PREEMPT_RT" if system.is_realtime() else ""
        text = f"module: not loaded{why}, stock behaviour; see: sluice doctor"
        output.say(output.wrap(text))
    if not seen.views:
        if netns is None:
            text = f"in {output.count(seen.namespaces, 'network namespace')}"
        else:
            text = f"in {namespaces.described(netns)}"
        output.say([f"no tun or tap device {text}"])


def _read(names: tuple[str, ...], netns: str | None, owners: bool = True) -> Seen:
    seen = devices.read_machine(netns, owners)
    devices.check_found(seen.views, names)
    return seen


def _read_twice(
    names: tuple[str, ...], netns: str | None
) -> tuple[Seen, dict[Key, Rates]]:
    """The devices, and their rates since a look before; none for one that is new."""
    first = _read(names, netns, owners=False)
    started = time.monotonic()
    before = {key_of(view): devices.counts(view) for view in first.views}
    time.sleep(LOOK_SECONDS)
    seconds = time.monotonic() - started
    seen = _read(names, netns)
    rates = {}
    for view in seen.views:
        counts = devices.counts(view)
        old = before.get(key_of(view), counts)
        rates[key_of(view)] = devices.per_second(old, counts, seconds)
    return seen, rates


def _are_names(words: tuple[str, ...]) -> bool:
    """Whether there are words, and none is a pattern."""
    if not words:
        return False
    from sluice import config  # takes long to import

    return not any(config.is_pattern(word) for word in words)


@click.command()
@options.names_argument(required=False)
@options.netns_option
@options.json_option
def status(names: tuple[str, ...], netns: str | None, as_json: bool) -> int:
    """Show the devices in a table, or details of those named.

    All network namespaces of the machine, unless --netns names one.
    """
    named = _are_names(names)
    seen, rates = _read_twice(names, netns) if named else (_read(names, netns), {})
    views = devices.matching(seen.views, names)
    if as_json:
        output.say_json(status_json(views, rates, seen.hidden))
    else:
        say_heading(seen, netns)
        if named:
            say_details(views, rates)
        elif views:
            say_devices(views)
        if seen.hidden:
            several = output.count(seen.hidden, "network namespace")
            output.say([f"{several} not shown; run it as root"])
    for error in seen.failed:
        output.complain(str(error))
    return NO if seen.failed else FINE
