# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice on, sluice off: switch devices, and remember it by name or pattern."""

from __future__ import annotations

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


def _attach(view: View, rule: Rule) -> None:
    """The rule's qdisc in place of noqueue."""
    if not (rule.on and rule.qdisc and view.qdisc == NOQUEUE):
        return
    try:
        system.attach_qdisc(view.ifindex, view.queue_count, rule.qdisc)
    except NetlinkError as error:
        if error.code != errno.ENOENT:
            raise
        raise SluiceError(
            f"{view.name}: this kernel has no qdisc {rule.qdisc}; "
            f"run: modprobe sch_{rule.qdisc}"
        ) from error


def _read_again(view: View) -> View:
    with system.netns(view.netns) as where:
        for one in devices.read_views(where, {}):
            if one.ifindex == view.ifindex:
                return one
    raise NetlinkError(errno.ENODEV)


def switch(view: View, rule: Rule) -> Outcome:
    """Apply a rule to a device of the namespace we are in."""
    try:
        system.set_device(view.ifindex, settings(rule))
        _attach(view, rule)
        view = _read_again(view)
    except NetlinkError as error:
        if error.code == errno.ENODEV:
            return Outcome(view.name, rule.on, False, "vanished meanwhile")
        reason = system.netlink_reason(error)
        next_step = "run it as root" if error.code in (errno.EPERM, errno.EACCES) else (
            "see: sluice doctor"
        )
        raise SluiceError(f"{view.name}: {reason}; {next_step}") from error
    except LookupError:
        raise SluiceError(NOT_LOADED) from None
    state = "on" if view.on else "off"
    text = state if view.why == state else f"{state}, {view.why}"
    hint = ""
    if view.on and view.qdisc == NOQUEUE:
        hint = "attach one: --qdisc fq_codel"
    return Outcome(view.name, bool(view.on), True, text, hint)


def format_outcome(outcome: Outcome) -> list[str]:
    text = f"{outcome.text}; {outcome.hint}" if outcome.hint else outcome.text
    head, *more = output.wrap(text, f"{outcome.name}: ", "  ")
    return [head.replace(outcome.name, output.bold(outcome.name), 1), *more]


def _check_patterns(names: tuple[str, ...]) -> None:
    for name in names:
        if not name or re.search(r"[\s/#]", name):
            raise click.UsageError(f"{name!r} is neither a device's name nor a pattern")
        if not devices.is_pattern(name) and len(name) > 15:
            raise click.UsageError(f"{name!r} is longer than a device's name, 15")


def run(
    names: tuple[str, ...], rules: list[Rule], now: bool, netns: str, as_json: bool
) -> int:
    """Remember the rules unless only for now; switch the devices there are."""
    _check_patterns(names)
    with system.netns(netns) as where:
        views = devices.read_views(where, {})
        if now:
            devices.check_found(views, names)
        else:
            config.remember(rules)
        if not system.read_module_version():
            remembered = "" if now else f"; it is remembered in {config.PATH}"
            raise SluiceError(NOT_LOADED + remembered)
        outcomes = []
        for view in views:
            matched = [rule for rule in rules if rule.matches(view.name)]
            if matched:
                outcomes.append(switch(view, _effective(view, matched[-1], now)))
    _say(outcomes, rules, now, as_json)
    return NO if now and any(not outcome.done for outcome in outcomes) else FINE


def _effective(view: View, rule: Rule, now: bool) -> Rule:
    """The rule with what its pattern was given earlier."""
    if now:
        return rule
    return config.rule_for(view.name, config.read()) or rule


def _say(outcomes: list[Outcome], rules: list[Rule], now: bool, as_json: bool) -> None:
    if as_json:
        patterns = [] if now else [rule.pattern for rule in rules]
        output.say_json({"devices": outcomes, "remembered": patterns})
        return
    for outcome in outcomes:
        output.say(format_outcome(outcome))
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
    qdisc: str | None,
    netns: str,
    as_json: bool,
) -> int:
    """Switch devices on, now and when they appear again."""
    given = {"stall-ms": stall_ms, "low-percent": low_percent, "limit": limit}
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
