# SPDX-License-Identifier: GPL-2.0-or-later
"""Each command line of the documents is played, or is an example; none is overlooked."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.cli import main
from tests._documented import EXAMPLES, PLAYED, TREE, Line, played_lines, read_lines
from tests.unit._machine import DEVICE0, TAP0, Machine

LINES = [line for line in read_lines() if not line.is_prose]
MAKE = [line for line in LINES if line.programs[0] == "make"]
BARE = {"PATH": "/usr/bin:/bin", "LC_ALL": "POSIX"}


def known(program: str) -> bool:
    return Path(program).name in PLAYED or program in EXAMPLES


def overlooked(lines: list[Line]) -> list[tuple[str, int, list[str]]]:
    found = []
    for line in lines:
        if unknown := [one for one in line.programs if not known(one)]:
            found.append((line.page, line.number, unknown))
    return found


def test_every_program_is_played_or_an_example() -> None:
    """A new one: into one of the tables of tests/_documented.py."""
    assert overlooked(LINES) == []
    assert {Path(line.page).name for line in played_lines()} >= {
        "README.md", "install.md", "operating.md", "sluice.8",
    }


def test_a_new_program_is_found() -> None:
    line = Line("page.md", 1, "sluice && nft list ruleset")
    assert line.programs == ["sluice", "nft"]
    assert overlooked([line]) == [("page.md", 1, ["nft"])]


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("sluice on tun0 --stall-ms 2000", False),
        ("sluice on NAME", True),
        ("sluice doctor   # the verdict: FAIL, WARN", False),
        ("apt install ./out/x.deb; sluice doctor", True),
        ("sluice bench --svg x.svg", True),  # its own scenario
        ("dmesg | grep sluice", False),
    ],
)
def test_example_has_a_placeholder_or_such_a_program(text: str, example: bool) -> None:
    assert Line("page.md", 1, text).is_example is example


@pytest.mark.parametrize("line", LINES, ids=lambda one: f"{one.page}:{one.number}")
def test_line_is_one_for_a_plain_shell(line: Line) -> None:
    if line.programs[0] == "source":
        pytest.skip("for bash, which the text says")
    done = subprocess.run(["sh", "-n", "-c", line.text], env=BARE, capture_output=True)
    assert done.returncode == 0, done.stderr


OURS = [
    line
    for line in played_lines()
    if line.programs == ["sluice"]
    and not re.search("watch|monitor|doctor|--output|>", line.text.split(" #")[0])
]


@pytest.mark.parametrize("line", OURS, ids=lambda one: f"{one.page}:{one.number}")
def test_command_takes_the_line(machine: Machine, line: Line) -> None:
    """With recorded devices; the scenario plays it with real ones."""
    machine.links.append(replace(TAP0, ifindex=4, name="vnet3"))
    machine.devices.append(replace(DEVICE0, ifindex=4, ifname="vnet3"))
    assert main(shlex.split(line.text, comments=True)[1:]) == 0


@pytest.mark.parametrize("line", MAKE, ids=lambda one: f"{one.page}:{one.number}")
def test_make_takes_the_line(line: Line) -> None:
    """It only says what it would do."""
    done = subprocess.run(
        ["sh", "-c", f"umask 077; {line.text}"],
        cwd=TREE,
        env={**BARE, "MAKEFLAGS": "n"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
