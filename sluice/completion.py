# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice completion: what a shell needs to complete the command's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sluice import options, output


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@options.json_option
@click.pass_context
def completion(context: click.Context, shell: str, as_json: bool) -> None:
    """Print completion code for a shell.

    For bash: source <(sluice completion bash)
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    command = context.find_root().command
    script = kind(command, {}, "sluice", "_SLUICE_COMPLETE").source()
    if as_json:
        output.say_json({"shell": shell, "script": script})
    else:
        output.say(script.rstrip("\n").split("\n"))
