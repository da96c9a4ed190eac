# SPDX-License-Identifier: GPL-2.0-or-later
"""The manual, docs/json.md and docs/schema.json have what the command has."""

from __future__ import annotations

import dataclasses
import json
import re
import runpy
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from sluice import cli, config, devices, monitor, output
from sluice.cli import main
from sluice.devices import View
from sluice.errors import EXIT_CODES
from sluice.namespaces import Namespace
from sluice.netlink import Event
from tests.unit._machine import Machine

TREE = Path(__file__).parents[2]
DOCS = TREE / "docs"
MANUAL = (TREE / "man/sluice.8").read_text()
FILES = (TREE / "man/sluice.conf.5").read_text()
MAIN = (TREE / "kmod/main.c").read_text()


def command(name: str) -> click.Command:
    found = cli.sluice.get_command(click.Context(cli.sluice), name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", cli.MODULES)
def test_every_subcommand_and_option_is_in_the_manual(name: str) -> None:
    assert f".It Cm {name}\n" in MANUAL
    for parameter in command(name).params:
        for option in parameter.opts:
            if option.startswith("--"):
                assert re.search(rf"^\.It Fl {option[1:]}\b", MANUAL, re.M), option


def test_synopsis_has_the_options_of_each_subcommand() -> None:
    synopsis = MANUAL.partition(".Sh SYNOPSIS")[2].partition(".Sh DESCRIPTION")[0]
    blocks = [block for block in synopsis.split(".Nm\n") if block.strip()]
    assert len(blocks) == len(cli.MODULES)
    for name, block in zip(cli.MODULES, blocks):  # noqa: B905
        options = {o for p in command(name).params for o in p.opts if o[:2] == "--"}
        assert {f"-{o}" for o in re.findall(r"Fl (-[a-z-]+)", block)} == options


def test_qdiscs_and_settings_are_in_the_manual() -> None:
    for qdisc in config.QDISCS:
        assert f".Cm {qdisc}" in MANUAL and f".Cm {qdisc}" in FILES
    for name in config.RANGES:
        assert f".It Cm {name}= " in FILES


def test_exit_codes_are_in_one_table() -> None:
    section = MANUAL.partition(".Sh EXIT STATUS")[2].partition(".Sh ")[0]
    codes = [int(code) for code in re.findall(r"^\.It (\d+)$", section, re.M)]
    assert codes == list(EXIT_CODES)


def test_examples_of_the_files_are_right() -> None:
    found = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", FILES, re.M | re.S)
    lines = [line for text in found for line in config.parse(text)]
    assert len(lines) == 5 and not config.wrongs(lines)


def test_defaults_are_the_modules() -> None:
    found = re.findall(r"uint sluice_default_(\w+)(?: = (\d+))?;", MAIN)
    assert len(found) >= 3
    for name, value in found:
        word = name.replace("_", "-")
        option = re.split(rf"\.It Fl -{word} Ar \w+\n", MANUAL)[1]
        text = option.partition(".It Fl")[0]
        assert devices.DEFAULTS[word] == int(value or 0), name
        assert f"\n{value or 0} unless the module" in text, name


def module_parameters() -> dict[str, tuple[str, str]]:
    """Type and default by name."""
    words = {"true": "1", "false": "0", "": "0"}
    variables = re.findall(r"^(bool|uint) (\w+)(?: = (\w+))?;", MAIN, re.M)
    declared = {name: (kind, words.get(it, it)) for kind, name, it in variables}
    found = re.findall(r"module_param_named\((\w+), (\w+), \w+, 0\d+\)", MAIN)
    found += re.findall(r"module_param_cb\((\w+), &\w+, &(\w+),\s+0\d+\)", MAIN)
    described = re.findall(r"^MODULE_PARM_DESC\((\w+),", MAIN, re.M)
    assert sorted(described) == sorted(name for name, _ in found)
    return {name: declared[variable] for name, variable in found}


def test_parameters_of_the_module_are_in_the_manual() -> None:
    section = MANUAL.partition(".Sh MODULE PARAMETERS")[2].partition(".Sh ")[0]
    items = re.split(r"^\.It Va (\w+) Ns = Ns Cm (\w+)\n", section, flags=re.M)[1:]
    told = {name: (default, text) for name, default, text in zip(*[iter(items)] * 3)}
    known = module_parameters()
    assert sorted(told) == sorted(known)
    header = (TREE / "kmod/sluice.h").read_text()
    for name, (kind, default) in known.items():
        assert told[name][0] == default, name
        text = told[name][1]
        if kind == "uint":
            most = re.search(rf"SLUICE_{name.upper()}_MAX\s+(\d+)", header)
            assert most and f" to {most[1]}" in text, name


DOCUMENTS = [
    TREE / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted((TREE / "packaging").rglob("*.service")),
    *sorted((TREE / "packaging").rglob("*.yml")),
]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_commands_and_options_that_exist(path: Path) -> None:
    """Those in `...`; test_docs.py has the lines that are set apart."""
    text = path.read_text()
    for name, rest in re.findall(r"`(?:bin/)?sluice ([a-z]+)\b([^`\n]*)`", text):
        assert name in cli.MODULES, name
        known = {option for p in command(name).params for option in p.opts}
        given = set(re.findall(r"(?<!\S)--[\w-]+", rest.partition("|")[0]))
        assert given <= known | {"--help", "--OPTION"}, (name, rest)


# JSON

SCHEMA: dict[str, Any] = json.loads((DOCS / "schema.json").read_text())
PAGE = (DOCS / "json.md").read_text()


def check(text: str) -> str:
    """Which form of the schema an answer has."""
    answer = json.loads(text)
    assert answer["schema"] == output.SCHEMA == 1
    jsonschema.Draft7Validator(SCHEMA).validate(answer)
    (title,) = (
        form["title"]
        for form in SCHEMA["oneOf"]
        if jsonschema.Draft7Validator({**SCHEMA, "oneOf": [form]}).is_valid(answer)
    )
    return title


@pytest.mark.parametrize(("words", "title"), [
    ("status", "status"),
    ("status tap9", "error"),
    ("on tap0", "switched"),
    ("off tap0 --now", "switched"),
    ("off tap0 --dry-run", "switched"),
    ("forget t*", "forgotten"),
    ("forget x", "error"),
    ("apply", "applied"),
    ("config check", "config"),
    ("config check /dev/null", "config"),
    ("config show", "config"),
    ("watch --count 1", "watch"),
    ("metrics", "metrics"),
    ("completion bash", "completion"),
    ("status --nonsense", "error"),
])
@pytest.mark.parametrize("loaded", [True, False])
def test_answers(machine: Machine, capsys, words, title, loaded) -> None:
    machine.loaded = loaded
    config.PATH.write_text("t* on\n")
    code = main([*words.split(), "--json"])
    found = check(capsys.readouterr().out)
    assert found == title or (code and found == "error" and not loaded)


def test_events(machine: Machine, capsys, monkeypatch) -> None:
    event = Event(2, "tap0", 0, "stall", 3, 100, 1000)
    told = [(Namespace("red", 2), event), (Namespace("", 1), event)]
    monkeypatch.setattr(monitor, "events", lambda netns: iter(told))
    assert main(["monitor", "--json"]) == 0
    assert [check(line) for line in capsys.readouterr().out.splitlines()] == ["event"] * 2


def test_schema_is_that_of_the_commands_types() -> None:
    made = runpy.run_path(str(DOCS / "make_schema.py"))["format_schema"]()
    assert (DOCS / "schema.json").read_text() == made, "run: make generate"


def test_page_has_every_subcommand_and_member() -> None:
    for name in cli.MODULES:
        assert re.search(rf"^\| .*\b{name}\b.* \|", PAGE, re.M), name
    for field in dataclasses.fields(View):
        assert f"`{field.name}`" in PAGE, field.name
