# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice apply: load the rules of the files into the module."""

from __future__ import annotations

import glob
import time

import click

from sluice import config, devices, monitor, options, output, rules, switch
from sluice.errors import FINE, NO, SluiceError


WAIT_SECONDS = 1.0  # between two looks for the module


def await_module() -> None:
    """Return once the module is loaded."""
    if monitor.read_family():
        return
    output.note(["module: not loaded; waiting for it"])
    while not monitor.read_family():
        time.sleep(WAIT_SECONDS)


def follow() -> None:
    """Attach the qdisc that its rule asks for to each device that has noqueue."""
    for _, event in monitor.events(None):
        if event.kind != "noqueue":
            continue
        outcomes = switch.apply_wanted([glob.escape(event.ifname)])
        switch.say(outcomes)
        switch.complain(outcomes)


@click.command()
@click.argument(
    "name",
    required=False,
    metavar="[NAME|PATTERN]",
    shell_complete=options.complete_device,
)
@click.option(
    "--follow",
    "following",
    is_flag=True,
    help="Keep running, also before the module is loaded: attach a rule's qdisc to "
    "any device that has noqueue.",
)
@click.option("--keep", is_flag=True, help="Keep what was set by hand.")
@options.dry_run_option
@options.json_option
def apply(
    name: str | None, following: bool, keep: bool, dry_run: bool, as_json: bool
) -> int:
    """Load the files of the rules into the module.

    They are /etc/sluice.conf.d/*.conf and /etc/sluice.conf: all files or, if a
    line is wrong, none. Existing devices follow the rules again, also those
    that were set by hand, but for --keep; with NAME only those that match.
    """
    if following and (name is not None or dry_run or as_json):
        raise click.UsageError("--follow excludes a NAME, --dry-run and --json")
    names = ["*"] if name is None else [name]
    options.check_names(names)
    if following:
        await_module()
    if name is not None:
        views = devices.read_machine(with_owners=False).views
        devices.check_found(views, names)
    if dry_run:
        whole = config.read_all()
        rules.check(whole)
        outcomes = switch.preview(whole, names, keep)
    else:
        with config.locked():
            whole = config.read_all()
            if not rules.load(whole, [] if keep else names):
                raise SluiceError(rules.NOT_LOADED)
            outcomes = switch.apply_wanted(names)
    if as_json:
        answer = {"devices": outcomes, "rules": len(whole.entries)}
        output.say_json({**answer, "dry_run": dry_run})
    else:
        switch.say(outcomes)
        verb = "would be loaded" if dry_run else "loaded"
        output.say([f"{output.count(len(whole.entries), 'rule')} {verb}"])
    refused = switch.complain(outcomes)
    if following:
        follow()
    return NO if refused else FINE
