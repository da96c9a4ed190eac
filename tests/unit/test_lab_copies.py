# SPDX-License-Identifier: GPL-2.0-or-later
"""A copy is stale once its function changes, and not for a comment or a blank."""

from __future__ import annotations

import pytest

from lab.checks.copies import compare, compare_all, function_text
from lab.failure import LabError

SOURCE = """
static int one(int a)
{
	return two(a); /* twice */
}

int two(int a)
{
	return 2 * a;
}
"""
PROOF = " * Copy of: kmod/a.c one() ?\n * Copy of: kmod/a.c two() ?\n"


def write(tree, text: str) -> None:
    (tree / "kmod").mkdir(exist_ok=True)
    (tree / "kmod" / "a.c").write_text(text)


def test_function_is_found_by_its_definition() -> None:
    assert function_text(SOURCE, "one") == "static int one(int a) { return two(a); }"
    assert function_text(SOURCE, "two") == "int two(int a) { return 2 * a; }"
    with pytest.raises(LabError, match="three"):
        function_text(SOURCE, "three")


def test_only_what_changed_is_stale(tmp_path) -> None:
    write(tmp_path, SOURCE)
    proof, changed = compare(PROOF, tmp_path)
    assert changed == ["kmod/a.c one()", "kmod/a.c two()"] and "?" not in proof
    assert compare(proof, tmp_path) == (proof, [])
    write(tmp_path, SOURCE.replace("twice", "double").replace("\treturn", "  return"))
    assert compare(proof, tmp_path) == (proof, [])
    write(tmp_path, SOURCE.replace("2 * a", "3 * a"))
    assert compare(proof, tmp_path)[1] == ["kmod/a.c two()"]


def test_proofs_name_what_they_copy() -> None:
    assert len(compare_all()) >= 12
