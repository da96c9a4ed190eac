# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice on, sluice off: switch devices, and remember it by name or pattern."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Callable
from dataclasses import dataclass

import click
from pyroute2.netlink.exceptions import NetlinkError

from sluice import config, devices, options, output, system
from sluice.config import Rule
from sluice.devices import NOQUEUE, View
from sluice.errors import FINE, NO, SluiceError

VANISHED = "vanished meanwhile"
NOT_LOADED = "module: not loaded; run: modprobe sluice"


@dataclass(frozen=True)
class Outcome:
    """What became of a device."""

    name: str
    on: bool
    done: bool
    text: str
    hint: str = ""


def settings(rule: Rule) -> dict[str, int]:
    """The rule as attributes of device-set."""
    values = {name.replace("-", "_"): value for name, value in rule.values.items()}
    return {"on": int(rule.on), **values}


def _switch(view: View, rule: Rule) -> str:
    """Switch one device, or say why not; with the rule's qdisc for noqueue."""
    try:
        system.set_device(view.ifindex, settings(rule))
        if rule.on and rule.qdisc and view.qdisc == NOQUEUE:
            system.attach_qdisc(view.ifindex, view.queue_count, rule.qdisc)
    except LookupError:
        raise SluiceError(NOT_LOADED) from None
    except NetlinkError as error:
        reason = system.netlink_reason(error)
        if error.code in (errno.EPERM, errno.EACCES):
            raise SluiceError(f"{view.name}: {reason}; run it as root") from error
        if error.code == errno.ENODEV:
            return VANISHED
        if error.code == errno.ENOENT and rule.qdisc:
            return f"no qdisc {rule.qdisc}; run: modprobe sch_{rule.qdisc}"
        return f"{reason}; see: sluice doctor"
    return ""


def _outcome(name: str, rule: Rule, view: View | None, refused: str) -> Outcome:
    """view: the device as it is now."""
    if refused or view is None:
        return Outcome(name, rule.on, False, refused or VANISHED)
    state = "on" if view.on else "off"
    text = state if view.why == state else f"{state}, {view.why}"
    lacks_qdisc = view.on and view.qdisc == NOQUEUE
    hint = "attach one: --qdisc fq_codel" if lacks_qdisc else ""
    return Outcome(name, bool(view.on), True, text, hint)


def switch(
    where: system.Namespace, pairs: list[tuple[View, Rule]]
) -> list[Outcome]:
    """Apply rules to devices of the namespace we are in."""
    refused = [_switch(view, rule) for view, rule in pairs]
    again = {}
    if pairs:
        again = {view.ifindex: view for view in devices.read_views(where, {})}
    return [
        _outcome(view.name, rule, again.get(view.ifindex), reason)
        for (view, rule), reason in zip(pairs, refused)  # noqa: B905
    ]


def say(outcomes: list[Outcome]) -> None:
    """What was done or vanished; what was refused is a complaint."""
    for outcome in outcomes:
        if outcome.done or outcome.text == VANISHED:
            output.say(format_outcome(outcome))


def complain(outcomes: list[Outcome]) -> bool:
    """Whether anything was refused."""
    refused = [one for one in outcomes if not one.done and one.text != VANISHED]
    for outcome in refused:
        output.complain(f"{outcome.name}: {outcome.text}")
    return bool(refused)


def format_outcome(outcome: Outcome) -> list[str]:
    text = f"{outcome.text}; {outcome.hint}" if outcome.hint else outcome.text
    head, *more = output.wrap(text, f"{outcome.name}: ", "  ")
    return [head.replace(outcome.name, output.bold(outcome.name), 1), *more]


def _check_patterns(names: tuple[str, ...]) -> None:
    for name in names:
        if not name or re.search(r"[\s/#]", name):
            raise click.UsageError(f"{name!r} is neither a device's name nor a pattern")
        if not config.is_pattern(name) and len(name) > 15:
            raise click.UsageError(f"{name!r} is longer than a device's name, 15")


def run(
    names: tuple[str, ...], rules: list[Rule], now: bool, netns: str, as_json: bool
) -> int:
    """Remember the rules unless only for now; switch the devices there are."""
    _check_patterns(names)
    lock = contextlib.nullcontext() if now else config.locked()
    with system.netns(netns) as where, lock:
        views = devices.read_views(where, {})
        if now:
            devices.check_found(views, names)
        else:
            config.remember(rules)
        if not system.read_module_version():
            remembered = "" if now else f"; it is remembered in {config.PATH}"
            raise SluiceError(NOT_LOADED + remembered)
        # What is remembered may say more than what was given now.
        lines = [] if now else config.read()
        pairs = []
        for view in views:
            matched = [rule for rule in rules if rule.matches(view.name)]
            if matched:
                rule = config.rule_for(view.name, lines) or matched[-1]
                pairs.append((view, rule))
        outcomes = switch(where, pairs)
    _say(outcomes, rules, now, as_json)
    vanished = any(outcome.text == VANISHED for outcome in outcomes)
    return NO if complain(outcomes) or (now and vanished) else FINE


def _say(outcomes: list[Outcome], rules: list[Rule], now: bool, as_json: bool) -> None:
    if as_json:
        patterns = [] if now else [rule.pattern for rule in rules]
        output.say_json({"devices": outcomes, "remembered": patterns})
        return
    say(outcomes)
    if not now:
        for rule in rules:
            absent = not any(rule.matches(outcome.name) for outcome in outcomes)
            later = ", for devices to come: there is none now" if absent else ""
            text = f"remembered in {config.PATH}{later}"
            output.say(output.wrap(text, f"{rule.pattern}: ", "  "))


NOW = click.option("--now", is_flag=True, help="Only now; do not remember it.")


def _ranged(name: str, text: str) -> Callable[[options.Command], options.Command]:
    least, most = config.RANGES[name]
    return click.option(f"--{name}", type=click.IntRange(least, most), help=text)


@click.command()
@options.names_argument(required=True)
@NOW
@_ranged("stall-ms", "A reader without life for so long is a stall.")
@_ranged("low-percent", "Wake at this part of the limit.")
@_ranged("limit", "Stop at so many packets; 0: as many as are safe.")
@_ranged("target-us", "Stop at what is read in that time; 0: the whole ring.")
@click.option(
    "--qdisc",
    type=click.Choice(config.QDISCS),
    help="Attach it where a device has noqueue.",
)
@options.netns_option
@options.json_option
def on(
    names: tuple[str, ...],
    now: bool,
    stall_ms: int | None,
    low_percent: int | None,
    limit: int | None,
    target_us: int | None,
    qdisc: str | None,
    netns: str,
    as_json: bool,
) -> int:
    """Switch devices on, now and when they appear again."""
    given = {
        "stall-ms": stall_ms,
        "low-percent": low_percent,
        "limit": limit,
        "target-us": target_us,
    }
    values = {name: value for name, value in given.items() if value is not None}
    rules = [Rule(name, True, values, qdisc or "") for name in names]
    return run(names, rules, now, netns, as_json)


@click.command()
@options.names_argument(required=True)
@NOW
@options.netns_option
@options.json_option
def off(names: tuple[str, ...], now: bool, netns: str, as_json: bool) -> int:
    """Switch devices off: stock behaviour, now and when they appear again."""
    rules = [Rule(name, False) for name in names]
    return run(names, rules, now, netns, as_json)
