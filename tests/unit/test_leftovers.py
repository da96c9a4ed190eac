# SPDX-License-Identifier: GPL-2.0-or-later
"""What others reported of programs like this one: each report's whole kind."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sluice import config, doctor
from sluice.cli import main


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def _sparse(path: Path) -> None:
    with open(path, "wb") as handle:
        handle.truncate(1 << 30)


LOOP = "too many levels of symbolic links"
ODD = [
    (_sparse, "at most 1 MB"),
    (Path.mkdir, "is a directory"),
    (os.mkfifo, "not a regular file"),
    (_socket, "not a regular file"),
    (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    (lambda path: path.symlink_to("nowhere"), "link to nowhere, which is missing"),
    (lambda path: path.symlink_to(path.name), LOOP),
]
FILES = ("sluice.conf", "sluice.conf.d/a.conf")
CASES = [(place, *one) for place in FILES for one in ODD]
CASES += [
    ("sluice.conf.d", Path.touch, "not a directory"),
    ("sluice.conf.d", os.mkfifo, "not a directory"),
    ("sluice.conf.d", lambda path: path.symlink_to(path.name), LOOP),
]


@pytest.mark.parametrize(("place", "make", "reason"), CASES)
def test_what_is_no_file_of_rules_is_said_on_one_line(
    machine, monkeypatch, tmp_path, capsys, place, make, reason
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(place).parent.mkdir(exist_ok=True)
    make(Path(place))
    for words in (["config", "check"], ["apply"], ["off", "tap0"]):
        code = main(words)
        said = capsys.readouterr()
        assert (code, said.out, len(said.err.splitlines())) == (1, "", 1)
        assert reason in said.err
    assert machine.rules == []


@pytest.mark.parametrize(("make", "reason"), ODD[:-2])
def test_file_that_is_given_is_checked_alike(tmp_path, capsys, make, reason) -> None:
    make(tmp_path / "x")
    assert main(["config", "check", str(tmp_path / "x")]) == 1
    assert reason in capsys.readouterr().err


def test_hidden_file_is_not_read_and_doctor_says_so(machine, capsys) -> None:
    config.FOLDER.mkdir()
    (config.FOLDER / ".10-a.conf").write_text("* off\n")
    (config.FOLDER / ".#10-a.conf").symlink_to("somebody@here.1")  # an editor's lock
    assert main(["config", "show"]) == 0
    assert "no rule" in capsys.readouterr().out
    names = doctor.read_facts().unused
    assert [Path(one).name for one in names] == [".#10-a.conf", ".10-a.conf"]
