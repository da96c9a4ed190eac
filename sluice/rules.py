# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads the rules of the files into the module, and tells how the two differ."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from sluice import config, netlink, system
from sluice.config import Entry
from sluice.errors import Denied, NetlinkError, SluiceError

NOT_LOADED = "module: not loaded; see: sluice doctor"
COMING_SECONDS = 5.0  # the module may take this long from its event to its answer


def to_module(entry: Entry) -> netlink.Rule:
    rule = entry.rule
    values = {name.replace("-", "_"): value for name, value in rule.values.items()}
    return netlink.Rule(
        pattern=config.module_pattern(rule.pattern),
        netns=rule.netns,
        on=rule.on,
        qdisc=rule.qdisc,
        origin=entry.origin,
        **values,
    )


def check(rules: config.Rules) -> None:
    """Refuse rules with an error in any file."""
    if rules.wrongs:
        first, more = rules.wrongs[0], len(rules.wrongs) - 1
        others = f" (and {more} more)" if more else ""
        kind = Denied if rules.denied else SluiceError
        raise kind(f"{first}{others}; nothing was changed, see: sluice config check")


def load(rules: config.Rules, reset: Sequence[str] = ()) -> bool:
    """Replace the module's rules; False if it is not loaded.

    reset: patterns of devices that lose their settings made by hand.
    """
    check(rules)
    wanted = [to_module(entry) for entry in rules.entries]
    patterns = [config.module_pattern(pattern) for pattern in reset]
    until = time.monotonic() + COMING_SECONDS
    while True:
        try:
            system.set_rules(wanted, patterns)
            return True
        except LookupError:
            if not system.read_module_version() or time.monotonic() > until:
                return False
            time.sleep(0.1)  # the event may come before the module is ready
        except NetlinkError as error:
            reason = error.reason
            if error.is_denial:
                where = "on the host" if "namespace" in reason else "as root"
                raise Denied(f"rules: {reason}; run it {where}") from error
            raise SluiceError(f"rules: {reason}; see: sluice doctor") from error


def _described(rule: netlink.Rule) -> str:
    pattern = os.fsdecode(rule.pattern)
    return f"{pattern} ({rule.origin})"


def drift(rules: config.Rules, loaded: Iterable[netlink.Rule]) -> list[str]:
    """A sentence for each difference between the files and the module."""
    wanted = [to_module(entry) for entry in rules.entries]
    found = list(loaded)
    if wanted == found:
        return []
    missing = [f"not loaded: {_described(one)}" for one in wanted if one not in found]
    stale = [f"no longer in a file: {_described(one)}" for one in found
             if one not in wanted]
    return [*missing, *stale] or ["their order differs"]
