# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice config: check the rules of the files, or show those of the module."""

from __future__ import annotations

from pathlib import Path

import click

from sluice import config as files
from sluice import options, output, rules, system
from sluice.errors import DENIED, FINE, NO, SluiceError
from sluice.netlink import Rule
from sluice.output import Column

FILE = click.Path(path_type=Path, readable=False)  # that it is not is said as elsewhere
COLUMNS = (Column("RULE", least=20), Column("FROM", least=16), Column("MODULE"))


def _state(entry: files.Entry, loaded: list[Rule] | None) -> str:
    wanted = rules.to_module(entry)
    if wanted in (loaded or ()):
        return "loaded"
    known = {rule.pattern for rule in loaded or ()}
    return "differs" if wanted.pattern in known else "not loaded"


def _read(paths: tuple[Path, ...]) -> files.Rules:
    """The rules of these files; without one, those of the machine."""
    if not paths:
        return files.read_all()
    try:
        for path in paths:
            path.stat()
    except FileNotFoundError:
        raise SluiceError(f"{path}: no such file; see: sluice config --help") from None
    except OSError:
        pass  # said when it is read
    return files.collect({path: files.read(path) for path in paths})


@click.command()
@click.argument("action", type=click.Choice(["check", "show"]))
@click.argument("paths", nargs=-1, metavar="[FILE]...", type=FILE)
@options.json_option
def config(action: str, paths: tuple[Path, ...], as_json: bool) -> int:
    """Check the files of the rules, or show the rules in order.

    The files are /etc/sluice.conf.d/*.conf and then /etc/sluice.conf; check
    takes others as well, for example before they are copied there.
    """
    if paths and action == "show":
        raise click.UsageError(f"show takes no file, as {str(paths[0])!r}")
    found = _read(paths)
    loaded = None if paths else system.read_rules()
    if as_json:
        entries = [
            {"rule": one.rule, "origin": one.origin, "module": _state(one, loaded)}
            for one in found.entries
        ]
        output.say_json({"rules": entries, "errors": list(found.wrongs)})
    elif action == "show":
        rows = [
            (files.format_rule(one.rule), one.origin, _state(one, loaded))
            for one in found.entries
        ]
        if rows:
            output.say_table(COLUMNS, rows)
        elif not found.wrongs:
            output.say([f"no rule in {files.PATH} or {files.FOLDER}"])
    elif not found.wrongs:
        output.say([f"{output.count(len(found.entries), 'rule')}, no error"])
    for wrong in found.wrongs:
        output.complain(wrong)
    if found.denied:
        return DENIED
    return NO if found.wrongs else FINE
