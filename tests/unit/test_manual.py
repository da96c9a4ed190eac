# SPDX-License-Identifier: GPL-2.0-or-later
"""The manual has what the command has."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from sluice import cli, config, devices
from sluice.errors import EXIT_CODES

MAN = Path(__file__).parents[2] / "man"
MANUAL = (MAN / "sluice.8").read_text()
FILES = (MAN / "sluice.conf.5").read_text()


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


def test_sections_and_qdiscs() -> None:
    for section in ("MODULE PARAMETERS", "FIELDS", "EXIT STATUS", "EXAMPLES", "CAVEATS"):
        assert f".Sh {section}\n" in MANUAL
    for qdisc in config.QDISCS:
        assert f".Cm {qdisc}" in MANUAL and f".Cm {qdisc}" in FILES
    for name in config.RANGES:
        assert f".It Cm {name}= " in FILES


def test_exit_codes_are_in_one_table() -> None:
    section = MANUAL.partition(".Sh EXIT STATUS")[2].partition(".Sh ")[0]
    codes = [int(code) for code in re.findall(r"^\.It (\d+)$", section, re.M)]
    assert codes == list(EXIT_CODES)
    words = " ".join(section.split()).lower()
    assert all(text in words for text in EXIT_CODES.values())


def test_examples_of_the_files_are_right() -> None:
    found = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", FILES, re.M | re.S)
    lines = [line for text in found for line in config.parse(text)]
    assert len(lines) == 5 and not config.wrongs(lines)


def test_defaults_are_the_modules() -> None:
    main = (Path(__file__).parents[2] / "kmod/main.c").read_text()
    found = re.findall(r"uint sluice_default_(\w+)(?: = (\d+))?;", main)
    assert len(found) >= 3
    for name, value in found:
        word = name.replace("_", "-")
        option = re.split(rf"\.It Fl -{word} Ar \w+\n", MANUAL)[1]
        text = option.partition(".It Fl")[0]
        assert devices.DEFAULTS[word] == int(value or 0), name
        assert f"\n{value or 0} unless the module was given another default" in text, name


KMOD = MAN.parent / "kmod"


def module_parameters() -> dict[str, tuple[str, str, bool]]:
    """By name: type, default, and whether a running module lets it be changed."""
    main = (KMOD / "main.c").read_text()
    pairs: list[tuple[str, str]]
    pairs = re.findall(r"^(?:bool|uint) (\w+) = (\w+);", main, re.M)
    declared = dict(pairs)
    declared |= dict.fromkeys(re.findall(r"^(?:bool|uint) (\w+);", main, re.M), "0")
    found = re.findall(r"module_param_named\((\w+), (\w+), (\w+), (0\d+)\)", main)
    numbers = re.findall(r"module_param_cb\((\w+), &\w+, &(\w+),\s+(0\d+)\)", main)
    found += [(name, variable, "uint", mode) for name, variable, mode in numbers]
    assert len(found) == main.count("MODULE_PARM_DESC")
    words = {"true": "1", "false": "0"}
    return {
        name: (kind, words.get(declared[variable], declared[variable]), mode == "0644")
        for name, variable, kind, mode in found
    }


def test_parameters_of_the_module_are_in_the_manual() -> None:
    section = MANUAL.partition(".Sh MODULE PARAMETERS")[2].partition(".Sh ")[0]
    items = re.split(r"^\.It Va (\w+) Ns = Ns Cm (\w+)\n", section, flags=re.M)[1:]
    told = {name: (default, text) for name, default, text in zip(*[iter(items)] * 3)}
    known = module_parameters()
    assert sorted(told) == sorted(known)
    header = (KMOD / "sluice.h").read_text()
    for name, (kind, default, changes) in known.items():
        assert told[name][0] == default, name
        text = told[name][1]
        assert text.startswith("Boolean") == (kind == "bool"), name
        assert ("set only when the module is loaded" in text) == (not changes), name
        if kind == "uint":
            most = re.search(rf"SLUICE_{name.upper()}_MAX\s+(\d+)", header)
            assert most and f" to {most[1]}" in text, name


REPOSITORY = MAN.parent
DOCUMENTS = [
    REPOSITORY / "README.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
    *sorted((REPOSITORY / "packaging").rglob("*.service")),
    *sorted((REPOSITORY / "packaging").rglob("*.yml")),
]


def proposed(text: str) -> list[list[str]]:
    """The commands of ours in code: in `...`, or in lines that are set apart."""
    lines = [*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^ {4}(.*)$", text, re.M)]
    found = []
    for line in lines:
        for part in re.split(r"&&|\|\||[|;#]", line):
            words = part.split()
            words = words[1:] if words[:1] in (["$"], ["sudo"]) else words
            if words and words[0] in ("sluice", "bin/sluice"):
                found.append(words[1:])
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_propose_commands_that_exist(path: Path) -> None:
    for words in proposed(path.read_text()):
        if not words or words[0] not in cli.MODULES:
            assert not words or not re.fullmatch(r"[a-z]{3,}", words[0]), (path, words)
            continue
        known = {option for p in command(words[0]).params for option in p.opts}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        more = {"--help", "--OPTION"}  # the latter stands for any
        assert given - {"--"} <= known | more, (path, words)


def test_commands_of_documents_are_found() -> None:
    text = "x `sluice on 'vnet*'` y\n\n    sudo sluice doctor --report | less\n"
    assert proposed(text) == [["on", "'vnet*'"], ["doctor", "--report"]]
