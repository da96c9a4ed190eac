# SPDX-License-Identifier: GPL-2.0-or-later
"""How the changes of series/ are read, and when they are refused."""

import pytest

from lab.checks.driver import at_patch, driver_files
from lab.checks.semantic import insert, parse_semantic_patch, tidy
from lab.checks.series import read_series
from lab.failure import LabError

RULES = """// file: a.c
// unless: new in b.h

@first@
@@
-old();

@second@
expression e;
@@
-f(e);
"""


def test_each_rule_is_a_text_of_its_own():
    first, second = parse_semantic_patch("x.cocci", RULES).rules
    assert first == "@first@\n@@\n-old();\n\n"
    assert second.startswith("@second@\nexpression e;\n@@\n")


def test_a_semantic_patch_names_its_file_and_when_it_applies(tmp_path):
    patch = parse_semantic_patch("x.cocci", RULES)
    assert patch.file == "a.c"
    assert patch.looked_at == {"a.c", "b.h"}
    (tmp_path / "b.h").write_text("void old(void);\n")
    assert patch.applies(tmp_path)
    (tmp_path / "b.h").write_text("void new(void);\n")
    assert not patch.applies(tmp_path)


@pytest.mark.parametrize("text", ["@rule@\n@@\n-f();\n", "// file: a.c\n"])
def test_a_semantic_patch_without_file_or_rule_is_refused(text):
    with pytest.raises(LabError, match="names no file or has no named rule"):
        parse_semantic_patch("x.cocci", text)


def test_insert_after_before_and_instead_of_lines():
    text = "one\ntwo\nthree\n"
    assert insert("x", "after: one\nnew\n", text) == "one\nnew\ntwo\nthree\n"
    assert insert("x", "before: three\nnew\n", text) == "one\ntwo\nnew\nthree\n"
    assert insert("x", "from: two\nbefore: three\nnew\n", text) == "one\nnew\nthree\n"


@pytest.mark.parametrize("pattern", ["four", "t"])
def test_insert_at_no_line_or_two_is_refused(pattern):
    with pytest.raises(LabError, match="lines of the kernel's file"):
        insert("x", f"after: {pattern}\nnew\n", "one\ntwo\nthree\n")


def test_lines_that_spatch_adds_get_the_kernels_layout():
    old = "int f(void) {\n}\n"
    new = old + "static int g(int a) {\n\t \n\tfor(i = 0;i < a;i++)\n}\nint h;\n"
    assert tidy(old, new) == (
        "int f(void) {\n}\n\nstatic int g(int a)\n{\n\n"
        "\tfor (i = 0; i < a; i++)\n}\n\nint h;\n"
    )


def test_patches_of_the_newest_source_prepare_nothing():
    newest, all_of_them = read_series(True), read_series(False)
    assert not [p for p in newest if p.folder.name.startswith("00")]
    assert len(newest) >= 7
    assert {p.folder for p in newest} <= {p.folder for p in all_of_them}


def test_every_patch_says_what_it_does():
    for patch in read_series(False):
        subject, blank, *body = patch.message.splitlines()
        assert len(subject) <= 75 and ": " in subject
        assert blank == "" and body
        assert all(len(line) <= 75 for line in body)


def test_a_patch_has_the_lines_of_its_conditions():
    text = "#include <a.h>\n#if PATCH >= 3\nnew\n#if PATCH < 5\nshort\n#endif\n"
    text += "#else\nold\n#endif\n#endif /* X_H */\n"
    first, last = "#include <a.h>\n", "#endif /* X_H */\n"
    assert at_patch(text, 2) == first + "old\n" + last
    assert at_patch(text, 3) == first + "new\nshort\n" + last
    assert at_patch(text, 5) == first + "new\n" + last
    with pytest.raises(LabError, match="without '#endif'"):
        at_patch("#if PATCH >= 3\nnew\n", 3)


def test_the_driver_has_the_modules_policy_under_its_own_names():
    files = driver_files()
    policy = files["drivers/net/tun_tx_flow.c"]
    assert "tun_tx_flow_review(" in policy
    assert policy.count("EXPORT_SYMBOL_IF_KUNIT") == files[
        "drivers/net/tun_tx_flow.h"
    ].count(");\n")
    assert not [name for name, text in files.items() if "sluice" in text.lower()]
    assert driver_files(1) == {}
