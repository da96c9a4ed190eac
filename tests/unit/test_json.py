# SPDX-License-Identifier: GPL-2.0-or-later
"""Every answer in JSON is as docs/schema.json says, and has its version."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sluice import cli, config, monitor, output
from sluice.cli import main
from sluice.devices import View
from sluice.namespaces import Namespace
from sluice.netlink import Event
from tests.unit._machine import Machine

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA: dict[str, Any] = json.loads((DOCS / "schema.json").read_text())
PAGE = (DOCS / "json.md").read_text()


def check(text: str) -> str:
    """Which form of the schema an answer has."""
    answer = json.loads(text)
    assert answer["schema"] == output.SCHEMA == 1
    jsonschema.Draft7Validator(SCHEMA).validate(answer)
    found = []
    for form in SCHEMA["oneOf"]:
        whole = {**form, "definitions": SCHEMA["definitions"]}
        if jsonschema.Draft7Validator(whole).is_valid(answer):
            found.append(form["title"])
    (title,) = found
    return title


@pytest.mark.parametrize(
    ("words", "title"),
    [
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
    ],
)
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
    found = importlib.util.spec_from_file_location("made", DOCS / "make_schema.py")
    maker = importlib.util.module_from_spec(found)
    found.loader.exec_module(maker)
    assert (DOCS / "schema.json").read_text() == maker.format_schema(), (
        "run: make generate"
    )


def test_page_has_every_subcommand_and_member() -> None:
    for name in cli.MODULES:
        assert re.search(rf"^\| .*\b{name}\b.* \|", PAGE, re.M), name
    for field in dataclasses.fields(View):
        assert f"`{field.name}`" in PAGE, field.name
