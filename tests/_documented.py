# SPDX-License-Identifier: GPL-2.0-or-later
"""The command lines that README, docs/ and man/ print, apart from the text.

A line is played as it is printed (tests/command/scenarios/documented.py), or it is an
example: it has a placeholder in capitals, or a program of EXAMPLES.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/*.md", "man/*.[58]")
PLAYED = {"sluice", "ip", "tc", "cat", "dmesg", "grep", "echo", "rmmod", "cd", "mv",
          "umask", "chmod", "modprobe"}
# What no VM of the lab can run as it is printed, and who tries it.
EXAMPLES = {
    "apt": "changes packages: tests/packaging",
    "dnf": "another distribution",
    "zypper": "another distribution",
    "pacman": "another distribution",
    "make": "tests/unit/test_docs.py asks whether the target exists",
    "python3": "the lab",
    "rpmbuild": "a release",
    "makepkg": "another distribution",
    "pipx": "fetches packages",
    "ansible-playbook": "tests/unit/test_ansible.py",
    "dkms": "tests/packaging",
    "modinfo": "tests/packaging",
    "mokutil": "takes EFI",
    "reboot": "ends the machine",
    "systemctl": "tests/systemd",
    "ovs-vsctl": "tests/kernel/test_programs.py",
    "ynl": "tests/kernel/test_programs.py",
    "git": "another tree",
    "perf": "is in no root of the lab",
    "jq": "is in no root of the lab",
    "source": "bash alone knows it",
    "bin/sluice": "tests/packaging",
    "sluice bench": "tests/command/scenarios/command.py",
}
# The first words of lines that are no commands: outputs, diagrams, files.
PROSE = {
    "sender", "|", "closed", "^", "\\", "pace", "depth", "DEVICE", "tun0", "tap0", "ok",
    "WARN", "programs", "the", "no", "options", "sluice_rules:", "*", "vnet*", "[",
    "exit", "#!/bin/sh",
}
PLACEHOLDER = re.compile(r"(?<![\w$-])[A-Z]+(?![\w=.])")
CRON = re.compile(r"(?:\* ){5}root (.*)")


@dataclass(frozen=True)
class Line:
    page: str
    number: int
    text: str  # as a shell gets it
    cron: bool = False

    @property
    def programs(self) -> list[str]:
        """The first word of each command in it; `sluice bench` counts as one."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words, heads, begins = list(lexer), [], True
        for at, word in enumerate(words):
            if begins:
                pair = " ".join(words[at : at + 2])
                heads.append(pair if pair in EXAMPLES else word)
            begins = bool(re.fullmatch(r"[|&;]+", word))
        return heads

    @property
    def is_prose(self) -> bool:
        return self.text.split()[0] in PROSE or self.text.startswith("# ")

    @property
    def is_example(self) -> bool:
        known = {program in EXAMPLES for program in self.programs}
        code = self.text.split(" #")[0]
        return True in known or PLACEHOLDER.search(code) is not None


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are set apart, with those that they continue."""
    begun = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not begun and not re.match(r" {4,}\S", line):
            continue
        begun += line.strip()
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        if not re.match(r"[-*] \S", begun) or CRON.match(begun):
            yield number, begun
        begun = ""


def _manual(text: str) -> Iterator[tuple[int, str]]:
    """Commands after a prompt, in a display."""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"(?:\.Dl )?[#$] (\S.*)", line)
        if found:
            yield number, found[1]


def read_lines() -> list[Line]:
    found = []
    for path in sorted(path for page in PAGES for path in TREE.glob(page)):
        name, text = str(path.relative_to(TREE)), path.read_text()
        read = _manual if name.startswith("man/") else _markdown
        for number, line in read(text):
            cron = CRON.match(line)
            found.append(Line(name, number, cron[1] if cron else line, bool(cron)))
    return found


def played_lines() -> list[Line]:
    lines = (line for line in read_lines() if not line.is_prose)
    return [line for line in lines if not line.is_example]
