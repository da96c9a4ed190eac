# SPDX-License-Identifier: GPL-2.0-or-later
"""Options and arguments that several subcommands share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from sluice import system

Command = Callable[..., Any]


def _complete_device(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    with contextlib.suppress(Exception), system.netns("") as where:
        names = [link.name for link in system.read_links(where)]
        return [CompletionItem(n) for n in names if n.startswith(incomplete)]
    return []


def _complete_netns(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    names = system.read_netns_names()
    return [CompletionItem(n) for n in names if n.startswith(incomplete)]


def _check_netns(_: click.Context, __: click.Parameter, name: str) -> str:
    if "/" in name or name in (".", ".."):
        raise click.BadParameter(f"{name!r} is not a name of ip netns")
    return name


json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")

netns_option = click.option(
    "--netns",
    default="",
    metavar="NAME",
    callback=_check_netns,
    shell_complete=_complete_netns,
    help="Devices of this network namespace.",
)

all_netns_option = click.option(
    "--all-netns", is_flag=True, help="This namespace and all of ip netns."
)


def names_argument(required: bool) -> Callable[[Command], Command]:
    return click.argument(
        "names",
        nargs=-1,
        required=required,
        metavar="NAME|PATTERN..." if required else "[NAME|PATTERN]...",
        shell_complete=_complete_device,
    )


def chosen_netns(netns: str, all_netns: bool) -> list[str]:
    """The names of the namespaces to look at; "" is this one, and comes first."""
    if not all_netns:
        return [netns]
    if netns:
        raise click.UsageError("--netns and --all-netns exclude each other")
    return ["", *system.read_netns_names()]
