# SPDX-License-Identifier: GPL-2.0-or-later
"""The rules for the text of the pages find what breaks them."""

from __future__ import annotations

import pytest

from lab.checks.prose import complaints

LONG = "one two three four five " * 8 + "six"


@pytest.mark.parametrize(
    "text",
    [f"# A page\n\n{LONG}.\n", f"a b.\n- {LONG}\n", f"| a | {LONG} |\n", "is is so.\n"],
)
def test_what_breaks_a_rule_is_found(text: str) -> None:
    assert len(list(complaints(text))) == 1


@pytest.mark.parametrize(
    "text",
    [f"    {LONG}\n", LONG.replace("four", "four 19."), f"{LONG[:90]}\n\n{LONG[:90]}"],
)
def test_code_and_short_sentences_are_fine(text: str) -> None:
    assert list(complaints(text)) == []
