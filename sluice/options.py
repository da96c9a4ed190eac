# SPDX-License-Identifier: GPL-2.0-or-later
"""Options and arguments that several subcommands share."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from sluice import config, namespaces, system
from sluice.errors import quoted

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = Callable[..., Any]


def _begin_with(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_device(
    context: click.Context, _: click.Parameter | None, incomplete: str
) -> list[CompletionItem]:
    """The devices of the namespace that --netns names, else of this one; for forget the
    patterns that have a rule."""
    with contextlib.suppress(Exception):
        if context.info_name == "forget":
            from sluice import config

            lines = config.read(config.PATH)
            patterns = [line.rule.pattern for line in lines if line.rule]
            return _begin_with(incomplete, dict.fromkeys(patterns))
        with system.netns(context.params.get("netns") or "") as where:
            names = [link.name for link in system.read_links(where)]
        return _begin_with(incomplete, names)
    return []


def _complete_netns(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return _begin_with(incomplete, namespaces.read_names())


def _check_netns(
    _: click.Context, __: click.Parameter, name: str | None
) -> str | None:
    if name in (".", ".."):
        raise click.BadParameter(f"{quoted(name)} is not a network namespace")
    return name


def check_names(names: Sequence[str]) -> None:
    """Raise a usage error for a word that no device's name can match."""
    for name in names:
        if reason := config.unmatchable(name):
            raise click.UsageError(reason)


def _check_names(
    context: click.Context, _: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    if not context.resilient_parsing:  # a shell completes
        check_names(names)
    return tuple(dict.fromkeys(names))


class WholeNumber(click.IntRange):
    name = "whole number"  # in click's error messages


class Number(click.FloatRange):
    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):  # in no range and outside of none
            self.fail(f"{value!r} is not a valid {self.name}", param, ctx)
        return number


json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")

netns_option = click.option(
    "--netns",
    metavar="NAME|PID|PATH",
    callback=_check_netns,
    shell_complete=_complete_netns,
    help='Only this network namespace; "" is this one.',
)

dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would change; change nothing."
)


def count_option(what: str) -> Callable[[Command], Command]:
    """--count, for a subcommand that runs until it is interrupted."""
    return click.option(
        "--count",
        type=WholeNumber(min=0),
        default=0,
        metavar="N",
        help=f"End after N {what}; 0: never.",
    )


def names_argument(required: bool) -> Callable[[Command], Command]:
    return click.argument(
        "names",
        nargs=-1,
        required=required,
        metavar="NAME|PATTERN..." if required else "[NAME|PATTERN]...",
        callback=_check_names,
        shell_complete=complete_device,
    )
