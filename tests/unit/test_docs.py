# SPDX-License-Identifier: GPL-2.0-or-later
"""The documentation: what it names exists, and the commands it prints are right."""

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

PAGES = sorted(
    path.relative_to(TREE)
    for pattern in ("*.md", "docs/**/*.md", "lab/*.md", "proofs/**/*.md")
    for path in TREE.glob(pattern)
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOLDERS = "kmod|lab|tests|proofs|sluice|packaging|series|docs|man|bin"
NAMED = re.compile(rf"(?<![\w./-])((?:{FOLDERS})/[\w./*+-]+)")
MADE = {"kmod/sluice.ko", "lab/results/NAME.json"}  # not in the tree
MAKE = re.compile(r"(?:`|^ {4,})make ([a-z][\w-]*)", re.MULTILINE)
RULE = re.compile(r"^([a-z][\w -]*):", re.MULTILINE)
SCENARIOS = {
    path.stem: path.read_text() for path in TREE.glob("tests/*/scenarios/[a-z]*.py")
}


def anchors_of(text: str) -> set[str]:
    """What the headings can be linked by."""
    heads = [line.lstrip("#") for line in text.splitlines() if line[:1] == "#"]
    return {
        re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads
    }


def is_dead(page: Path, link: str) -> bool:
    if "://" in link or link.startswith("mailto:"):
        return False
    name, _, anchor = link.partition("#")
    target = (TREE / page.parent / name) if name else TREE / page
    if not target.exists():
        return True
    wanted = anchor and target.suffix == ".md"
    return bool(wanted) and anchor not in anchors_of(target.read_text())


def missing(page: Path, text: str) -> set[str]:
    """The links, files, make targets and scenarios that are not there. The name of a
    proof may lack its suffix."""
    files = {name.rstrip("./") for name in NAMED.findall(text)} - MADE
    rules = RULE.findall((TREE / "Makefile").read_text())
    targets = {name for rule in rules for name in rule.split()}
    return {
        *(link for link in LINK.findall(text) if is_dead(page, link)),
        *(name for name in files if not list(TREE.glob(f"{name}*"))),
        *(set(MAKE.findall(text)) - targets),
        *(
            f"{module}.{function}"
            for module, function in re.findall(r"\b(\w+)\.(\w+_\w+)\b", text)
            if f"def {function}(" not in SCENARIOS.get(module, f"def {function}(")
        ),
    }


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_a_page_names_exists(page) -> None:
    assert missing(page, (TREE / page).read_text()) == set()


def test_what_is_missing_is_found() -> None:
    text = "[a](README.md) [b](nowhere.md) [c](README.md#nothing) kmod/nothing.c "
    text += "`make tset` xdp.xdp_does_nothing"
    assert missing(Path("page.md"), text) == {
        "nowhere.md", "README.md#nothing", "kmod/nothing.c", "tset",
        "xdp.xdp_does_nothing",
    }


def test_results_name_no_folder_of_a_machine() -> None:
    texts = [path.read_text() for path in (TREE / "lab/results").iterdir()]
    assert re.findall(r'"/(?:tmp|root|home|work)/[^"]*', "".join(texts)) == []


def test_a_checkout_is_small() -> None:
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [TREE / name for name in done.stdout.split("\0") if name]
    assert sum(path.stat().st_size for path in paths if path.is_file()) < 5_000_000


# Command lines

LINES = [line for line in read_lines() if not line.is_prose]
BARE = {"PATH": "/usr/bin:/bin", "LC_ALL": "POSIX"}


def test_every_program_is_played_or_an_example() -> None:
    """A new one: into one of the tables of tests/_documented.py."""
    unknown = [
        (line.page, line.number, program)
        for line in LINES
        for program in line.programs
        if Path(program).name not in PLAYED and program not in EXAMPLES
    ]
    assert unknown == []
    assert Line("page.md", 1, "sluice && nft list").programs == ["sluice", "nft"]
    pages = {Path(line.page).name for line in played_lines()}
    assert pages >= {"README.md", "install.md", "operating.md", "sluice.8"}


@pytest.mark.parametrize("line", LINES, ids=lambda one: f"{one.page}:{one.number}")
def test_a_plain_shell_and_make_take_the_line(line: Line) -> None:
    """make only says what it would do."""
    if line.programs[0] == "source":
        pytest.skip("for bash, which the text says")
    runs = line.programs[0] == "make"
    done = subprocess.run(
        ["sh", *(["-c"] if runs else ["-n", "-c"]), f"umask 077; {line.text}"],
        cwd=TREE,
        env={**BARE, "MAKEFLAGS": "n"},
        capture_output=True,
        text=True,
    )
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
