# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice apply: do to the devices there are what /etc/sluice.conf remembers."""

from __future__ import annotations

import click

from sluice import config, devices, options, output, switch, system
from sluice.errors import FINE, NO


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
@options.netns_option
@options.json_option
def apply(name: str | None, netns: str, as_json: bool) -> int:
    """Apply /etc/sluice.conf to the devices there are, or to one.

    For udev, after a device appeared. A device without a line is left alone.
    """
    lines = config.read()
    wrongs = config.wrongs(lines)
    for wrong in wrongs:
        output.complain(wrong)
    outcomes: list[switch.Outcome] = []
    # udev calls this for each device: without a line there is nothing to ask.
    if any(line.rule for line in lines) and (
        name is None or config.rule_for(name, lines)
    ):
        with system.netns(netns) as where, config.locked():
            lines = config.read()  # again: somebody may have held the lock
            views = devices.read_views(where, {})
            rules = [(view, config.rule_for(view.name, lines)) for view in views]
            outcomes = switch.switch(
                where,
                [(v, rule) for v, rule in rules if rule and name in (None, v.name)],
            )
    if as_json:
        output.say_json({"devices": outcomes, "wrong": wrongs})
    else:
        switch.say(outcomes)
    return NO if switch.complain(outcomes) or wrongs else FINE
