# SPDX-License-Identifier: GPL-2.0-or-later
"""Who imports whom: the tests use the lab and the command, never the reverse."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
# No file of the first may import the second, in a function neither.
FORBIDDEN = [
    ("lab", "tests"),
    ("sluice", "tests"),
    ("sluice", "lab"),
    ("lab/guest", "lab.checks"),
    ("lab/guest", "lab.report"),
    ("lab/guest", "lab.machines"),
    ("lab/machines", "lab.checks"),
    ("lab/machines", "lab.guest"),
    ("lab/machines", "lab.report"),
    ("lab/machines", "lab.workloads"),
    ("lab/report", "lab.checks"),
    ("lab/workloads", "lab.checks"),
    ("lab/workloads", "lab.report"),
]


def parse_imports(source: str) -> Iterator[str]:
    """The modules that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def wrong_imports(folder: str, package: str) -> list[str]:
    found = []
    for path in sorted((TREE / folder).rglob("*.py")):
        for name in parse_imports(path.read_text()):
            if name == package or name.startswith(f"{package}."):
                found.append(f"{path.relative_to(TREE)}: {name}")
    return found


def test_every_import_is_seen() -> None:
    source = "from a import b\nimport c.d\ndef f():\n    from e.f import g\n"
    assert set(parse_imports(source)) == {"a", "a.b", "c.d", "e.f", "e.f.g"}


@pytest.mark.parametrize(("folder", "package"), FORBIDDEN)
def test_import_direction(folder, package) -> None:
    assert list((TREE / folder).rglob("*.py")), f"{folder}/: holds no source"
    assert wrong_imports(folder, package) == []


def test_a_wrong_import_is_found() -> None:
    assert wrong_imports("lab/checks", "lab.machines")


def _is_module(name: str) -> bool:
    path = TREE / Path(*name.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def missing_modules(source: str) -> list[str]:
    """What a source takes from our packages and is not there; a scenario's imports
    are run in a VM only."""
    return [
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module
        for name in [node.module]
        if name.split(".")[0] in ("lab", "sluice", "tests") and not _is_module(name)
    ]


@pytest.mark.parametrize("folder", ["lab", "sluice", "tests"])
def test_imported_modules_exist(folder) -> None:
    wrong = {
        str(path.relative_to(TREE)): missing
        for path in sorted((TREE / folder).rglob("*.py"))
        if (missing := missing_modules(path.read_text()))
    }
    assert wrong == {}


def test_a_missing_module_is_found() -> None:
    source = "from lab.nowhere import one\nfrom lab.guest import tun\n"
    assert missing_modules(source) == ["lab.nowhere"]
