# SPDX-License-Identifier: GPL-2.0-or-later
"""The quick lane: what it looks at, and that a complaint makes it fail."""

from __future__ import annotations

import pytest

from lab.checks.quick import is_shell, run_steps, run_tool, tracked_files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#!/bin/sh\nset -e\n", True),
        ("#!/bin/busybox sh\n", True),
        ("#!/usr/bin/env bash\n", True),
        ("#!/usr/bin/env python3\n", False),
        ("#!/bin/sh -e\n", True),
        ("echo no first line\n", False),
    ],
)
def test_shell_scripts_are_recognised(text, expected) -> None:
    assert is_shell(text) is expected


def test_tracked_files_are_ours() -> None:
    names = tracked_files()
    assert "README.md" in names
    assert not [name for name in names if name.endswith(".json")]


def test_tool_without_complaint_says_nothing() -> None:
    assert run_tool("true") == ""
    assert run_tool("sh", "-c", "echo wrong; exit 1") == "wrong"
    assert run_tool("false") == "failed"


def test_one_complaint_fails_the_lane(capsys) -> None:
    assert run_steps({"one": lambda: ""})
    assert not run_steps({"one": lambda: "", "two": lambda: "line 3: wrong"})
    assert "failed  two" in capsys.readouterr().out
