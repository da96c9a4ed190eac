# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers, lines and tables as they are printed."""

from __future__ import annotations

import os

import pytest

from sluice import output
from sluice.output import Column


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((-1, "-"), (0, "0"), (0.04, "0.0"), (3, "3"), (3.14, "3.1"), (9.94, "9.9")),
        *((9.95, "10"), (312.4, "312"), (9999, "9999"), (9999.5, "10.0k")),
        *((99_949, "99.9k"), (99_950, "100k"), (999_499, "999k"), (999_500, "1.0M")),
        *((12_345_678, "12.3M"), (5e9, "5.0G"), (5e12, "5.0T"), (5e15, "5.0P")),
        (2**64 - 1, "18.4E"),
    ],
)
def test_number_in_five_characters(number: float, text: str) -> None:
    assert output.short(number) == text and len(text) <= 5


def test_control_characters_are_not_printed() -> None:
    text = "a\x1b[2J\x07b\u200ec\td\n\udcff"
    assert output.printable(text) == r"a\x1b[2J\x07b\u200ec" "\t" r"d\n\xff"


@pytest.mark.parametrize(
    ("text", "width", "right", "plain", "styled"),
    [
        ("ab", 4, False, "ab  ", "ab"),
        ("ab", 4, True, "  ab", "ab"),
        ("abcdef", 4, False, "abc~", "abc~"),
        ("日本語", 4, False, "日~", "日~"),
        ("日本語", 7, True, " 日本語", "日本語"),
    ],
)
def test_line_is_cut_or_filled_up_by_columns(text, width, right, plain, styled) -> None:
    made = output.Text(text, "red").resized(width, right, mark="~")
    assert made.plain == plain
    assert [made.plain[one.start : one.end] for one in made.spans] == [styled]


@pytest.mark.parametrize(
    ("columns", "width"), [("60", 60), ("", 80), ("x", 80), ("0", 80), ("\u00b2", 80)]
)
def test_size_is_that_of_the_terminal_or_else_of_the_variables(
    monkeypatch, columns: str, width: int
) -> None:
    """Shells export these; they do not follow the terminal."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", "7")
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((33, 9)))
    assert output.terminal_size() == (33, 9)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((0, 0)))
    assert output.terminal_size() == (width, 7)


def test_lines_are_wrapped_below_80_columns_and_not_in_a_word(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = "word " * 40
    lines = output.wrap(text, "tap0: ")
    assert max(map(len, lines)) in range(70, 80)
    assert lines[0].startswith("tap0: word") and lines[1].startswith(" " * 6 + "word")
    assert output.wrap(text, "tap0: ", "  ")[1].startswith("  word")
    assert output.wrap("x" * 100) == ["x" * 100]
    assert output.wrap("", "tap0: ") == ["tap0:"]
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, output.wrap(text))) in range(45, 51)
    monkeypatch.setenv("COLUMNS", "10")
    assert max(map(len, output.wrap(text))) in range(35, 41), "too narrow to be read"


def test_table_is_one_line_for_each_row(capsys, monkeypatch, plain_terminal) -> None:
    monkeypatch.setenv("COLUMNS", "15")
    columns = [Column("NAME", least=4), Column("N", right=True), Column("X", spare=1)]
    output.say_table(columns, [["a long name", "1", "x"], ["b", "22", output.bad("y")]])
    assert capsys.readouterr().out == (
        "NAME        N X\na long na…  1 x\nb          22 y\n"
    )


def test_answers_and_errors_have_their_own_streams(capsys) -> None:
    output.say(["a\x07", output.good("b")])
    output.note(["doing\x07"])
    output.complain("tap0:  wrong\n  and more")
    said = capsys.readouterr()
    assert said.out == "a\\x07\nb\n"
    assert said.err == "doing\\x07\nsluice: tap0: wrong and more\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_erased_and_on_a_terminal_only(capsys, monkeypatch, terminal) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with pytest.raises(ZeroDivisionError), output.progress() as show:
        show("half")
        raise ZeroDivisionError
    assert capsys.readouterr().err == ("\r\x1b[Khalf\r\x1b[K" if terminal else "")
