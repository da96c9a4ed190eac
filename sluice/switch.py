# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice on, off, forget: change rules, or set a device by hand (--now)."""

from __future__ import annotations

import contextlib
import errno
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import click

from sluice import config, devices, options, output, rules, system
from sluice.config import Rule
from sluice.devices import NOQUEUE, View
from sluice.errors import FINE, NO, Denied, NetlinkError, SluiceError
from sluice.output import Text
from sluice.rules import NOT_LOADED

VANISHED = "vanished meanwhile"


@dataclass(frozen=True)
class Outcome:
    """What was done for a device, or would be done."""

    name: str
    netns: str
    on: bool
    done: bool
    text: str
    hint: str = ""


def settings(rule: Rule) -> dict[str, int]:
    """The rule as attributes of device-set."""
    values = {name.replace("-", "_"): value for name, value in rule.values.items()}
    return {"on": int(rule.on), **values}


def _tried(view: View, call: Callable[[], None], qdisc: str = "") -> str:
    """Do something to a device in its namespace; the reason if that fails."""
    try:
        with system.netns(view.netns):
            call()
    except LookupError:
        raise SluiceError(NOT_LOADED) from None
    except NetlinkError as error:
        reason = error.reason
        if error.is_denial:
            raise Denied(f"{view.name}: {reason}; run it as root") from error
        if error.code == errno.ENODEV:
            return VANISHED
        if error.code == errno.ENOENT and qdisc:
            return f"no qdisc {qdisc} in this kernel; run: modprobe sch_{qdisc}"
        return f"{reason}; see: sluice doctor"
    return ""


def set_by_hand(view: View, rule: Rule) -> str:
    return _tried(view, lambda: system.set_device(view.ifindex, settings(rule)))


def attach_qdisc(view: View, kind: str) -> str:
    """Attach a qdisc in place of noqueue; any other qdisc is kept."""
    if view.qdisc != NOQUEUE:
        return ""

    def call() -> None:
        system.attach_qdisc(view.ifindex, view.queue_count, kind)

    return _tried(view, call, kind)


def attach_wanted(views: list[View]) -> dict[tuple[str, int], str]:
    """Attach the qdiscs that rules ask for; the reasons where that fails."""
    return {
        (view.netns, view.ifindex): attach_qdisc(view, view.rule_qdisc)
        for view in views
        if view.rule_qdisc and view.on
    }


def _outcome(view: View, refused: str = "") -> Outcome:
    """view: the device as it is now."""
    if refused:
        return Outcome(view.name, view.netns, bool(view.on), False, refused)
    state = "on" if view.on else "off"
    text = state if view.why == state else f"{state}, {view.why}"
    lacks_qdisc = view.on and view.qdisc == NOQUEUE
    hint = "attach a qdisc: --qdisc fq_codel" if lacks_qdisc else ""
    return Outcome(view.name, view.netns, bool(view.on), True, text, hint)


def format_outcome(outcome: Outcome) -> list[str | Text]:
    text = f"{outcome.text}; {outcome.hint}" if outcome.hint else outcome.text
    where = f" (netns {outcome.netns})" if outcome.netns else ""
    head, *more = output.wrap(text, f"{outcome.name}{where}: ", "  ")
    return [output.marked(head, outcome.name, output.BOLD), *more]


def say(outcomes: list[Outcome]) -> None:
    """Print what was done or vanished; what was refused is an error."""
    for outcome in outcomes:
        if outcome.done or outcome.text == VANISHED:
            output.say(format_outcome(outcome))


def complain(outcomes: list[Outcome]) -> bool:
    """Print what was refused; whether anything was."""
    refused = [one for one in outcomes if not one.done and one.text != VANISHED]
    for outcome in refused:
        output.complain(f"{outcome.name}: {outcome.text}")
    return bool(refused)


def check_patterns(names: Sequence[str]) -> None:
    """Raise a usage error for a word that no rule may have as its pattern."""
    for name in names:
        if reason := config.wrong_pattern(name):
            raise click.UsageError(reason)


# By hand


def by_hand(names: Sequence[str], given: list[Rule], netns: str | None) -> list[Outcome]:
    """Set the present devices, until they vanish or rules reset them."""
    views = devices.read_machine(netns, with_owners=False).views
    devices.check_found(views, names)
    if not system.read_module_version():
        raise SluiceError(NOT_LOADED)
    chosen = devices.matching(views, names)
    refused: dict[tuple[str, int], str] = {}
    for view in chosen:
        rule = next(rule for rule in reversed(given) if rule.matches(view.name))
        reason = set_by_hand(view, rule)
        if not reason and rule.on and rule.qdisc:
            reason = attach_qdisc(view, rule.qdisc)
        refused[view.netns, view.ifindex] = reason
    return outcomes_of(chosen, refused, netns)


def outcomes_of(
    before: list[View],
    refused: dict[tuple[str, int], str],
    netns: str | None = None,
) -> list[Outcome]:
    """The outcome for each device; a device that no longer exists has vanished."""
    if not before:
        return []
    now = devices.read_machine(netns, with_owners=False).views
    again = {(view.netns, view.ifindex): view for view in now}
    found = []
    for view in before:
        key = (view.netns, view.ifindex)
        gone = "" if key in again else VANISHED
        found.append(_outcome(again.get(key, view), refused.get(key) or gone))
    return found


# By rules


def preview(
    whole: config.Rules, names: Sequence[str], keep: bool = False
) -> list[Outcome]:
    """What these rules would give to the present devices.

    keep: those that were switched by hand stay as they are.
    """
    views = devices.read_machine(with_owners=False).views
    default_on = system.read_parameters().get("default_on", "Y") == "Y"
    found = []
    for view in devices.matching(views, names):
        entry = whole.entry_for(view.name, view.host)
        on = entry.rule.on if entry else default_on
        now = {None: devices.STOCK, True: "on", False: "off"}[view.on]
        origin = f"by {entry.origin}" if entry else "by no rule"
        line = config.format_rule(entry.rule) if entry else "defaults"
        text = f"would be {'on' if on else 'off'}, is {now}; {origin}: {line}"
        if keep and view.by_hand:
            on, text = bool(view.on), f"stays {now}, by hand"
        found.append(Outcome(view.name, view.netns, on, True, text))
    return found


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals wait until the file and the module have the same rules."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def change_rules(
    lines: list[config.Line], reset: Sequence[str], dry_run: bool
) -> list[Outcome]:
    """Write these lines to /etc/sluice.conf, load all files; the caller is locked()."""
    whole = config.read_all(lines)
    rules.check(whole)
    if dry_run:
        return preview(whole, reset)
    with _uninterrupted(), config.writing(lines):
        loaded = rules.load(whole, reset)
    if not loaded:
        raise SluiceError(f"{NOT_LOADED}; {config.PATH} was changed")
    return apply_wanted(reset)


def apply_wanted(names: Sequence[str]) -> list[Outcome]:
    """Attach the qdiscs that the rules of these devices ask for."""
    views = devices.read_machine(with_owners=False).views
    chosen = devices.matching(views, names)
    return outcomes_of(chosen, attach_wanted(chosen))


@dataclass(frozen=True)
class How:
    """The options that on and off share."""

    now: bool
    host: bool
    dry_run: bool
    netns: str | None
    as_json: bool


def run(names: tuple[str, ...], given: list[Rule], how: How) -> int:
    """Add rules, or set devices by hand."""
    check_patterns(names)
    if how.now and (how.host or how.dry_run):
        raise click.UsageError("--now excludes --host and --dry-run")
    if how.netns is not None and not how.now:
        raise click.UsageError(
            "--netns needs --now: a rule holds in every namespace, or with --host "
            "in the host's"
        )
    if how.now:
        outcomes = by_hand(names, given, how.netns)
    elif how.dry_run:
        outcomes = change_rules(config.with_rules(given), names, dry_run=True)
    else:
        with config.locked():
            outcomes = change_rules(config.with_rules(given), names, dry_run=False)
    _say(outcomes, given, how)
    vanished = any(outcome.text == VANISHED for outcome in outcomes)
    return NO if complain(outcomes) or (how.now and vanished) else FINE


def _say(outcomes: list[Outcome], given: list[Rule], how: How) -> None:
    remembered = [] if how.now else [rule.pattern for rule in given]
    if how.as_json:
        answer = {"devices": outcomes, "remembered": remembered}
        output.say_json({**answer, "dry_run": how.dry_run})
        return
    say(outcomes)
    verb = "would be remembered" if how.dry_run else "remembered"
    for rule in given if not how.now else []:
        absent = not any(rule.matches(outcome.name) for outcome in outcomes)
        later = "; no such device now" if absent else ""
        text = f"{verb} in {config.PATH}{later}"
        output.say(output.wrap(text, f"{rule.pattern}: ", "  "))


NOW = click.option(
    "--now", is_flag=True, help="Only the devices that exist now; write no rule."
)
HOST = click.option(
    "--host",
    is_flag=True,
    help="Only in the host's network namespace; without it, in all.",
)


def _ranged(
    name: str, unit: str, text: str
) -> Callable[[options.Command], options.Command]:
    least, most = config.RANGES[name]
    kind = options.WholeNumber(least, most)
    text = f"{text}  [without a rule: {devices.DEFAULTS[name]}]"
    return click.option(f"--{name}", type=kind, metavar=unit, help=text)


@click.command()
@options.names_argument(required=True)
@NOW
@HOST
@_ranged("stall-ms", "MS", "Longest time a queue stays stopped (milliseconds).")
@_ranged("low-percent", "PERCENT", "Wake at this fill (per cent of the limit).")
@_ranged("limit", "PACKETS", "Stop at this fill; 0: as late as is safe.")
@_ranged(
    "target-us",
    "US",
    "Limit queueing delay in the ring (microseconds; 0: no limit).",
)
@click.option(
    "--qdisc",
    type=click.Choice(config.QDISCS),
    help="Attach it where a device has noqueue.",
)
@options.dry_run_option
@options.netns_option
@options.json_option
def on(
    names: tuple[str, ...],
    now: bool,
    host: bool,
    stall_ms: int | None,
    low_percent: int | None,
    limit: int | None,
    target_us: int | None,
    qdisc: str | None,
    dry_run: bool,
    netns: str | None,
    as_json: bool,
) -> int:
    """Switch devices on, now and when they appear again.

    --netns needs --now, as rules hold in every network namespace; --host and
    --dry-run are for rules only. An option that is not given stays as the rule
    has it; without a rule the module's parameter applies.
    """
    given = {
        "stall-ms": stall_ms,
        "low-percent": low_percent,
        "limit": limit,
        "target-us": target_us,
    }
    values = {name: value for name, value in given.items() if value is not None}
    where = "host" if host else "all"
    added = [Rule(name, True, values, qdisc or "", where) for name in names]
    return run(names, added, How(now, host, dry_run, netns, as_json))


@click.command()
@options.names_argument(required=True)
@NOW
@HOST
@options.dry_run_option
@options.netns_option
@options.json_option
def off(
    names: tuple[str, ...],
    now: bool,
    host: bool,
    dry_run: bool,
    netns: str | None,
    as_json: bool,
) -> int:
    """Switch devices off, now and when they appear again.

    An off device behaves as without sluice. --netns needs --now, as rules hold
    in every network namespace; --host and --dry-run are for rules only.
    """
    added = [Rule(name, False, netns="host" if host else "all") for name in names]
    return run(names, added, How(now, host, dry_run, netns, as_json))


def _check_known(patterns: Sequence[str], lines: list[config.Line]) -> None:
    known = {line.rule.pattern for line in lines if line.rule}
    for pattern in patterns:
        if pattern in known:
            continue
        others = [
            entry.origin
            for entry in config.read_all().entries
            if entry.rule.pattern == pattern
        ]
        if others:
            raise SluiceError(f"{pattern}: its rule is {others[-1]}; edit that file")
        next_step = devices.suggestion(pattern, sorted(known))
        raise SluiceError(
            f"{pattern}: no such rule in {config.PATH}; "
            + (next_step or "see: sluice config show")
        )


@click.command()
@options.names_argument(required=True)
@options.dry_run_option
@options.json_option
def forget(names: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Remove rules from /etc/sluice.conf.

    What the other rules say applies again.
    """
    check_patterns(names)
    with contextlib.nullcontext() if dry_run else config.locked():
        before = config.read()
        _check_known(names, before)
        lines = config.without_patterns(names, before)
        outcomes = change_rules(lines, names, dry_run)
    if as_json:
        output.say_json(
            {"devices": outcomes, "forgotten": list(names), "dry_run": dry_run}
        )
    else:
        say(outcomes)
        verb = "would be forgotten" if dry_run else "forgotten"
        output.say([f"{name}: {verb}" for name in names])
    return NO if complain(outcomes) else FINE


