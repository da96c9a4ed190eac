# SPDX-License-Identifier: GPL-2.0-or-later
"""Who imports whom: tests use the lab and the command, never the reverse, no circles."""

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
    return [
        f"{path.relative_to(TREE)}: {name}"
        for path in sorted((TREE / folder).rglob("*.py"))
        for name in parse_imports(path.read_text())
        if name == package or name.startswith(f"{package}.")
    ]


def missing_modules(source: str) -> list[str]:
    """What a source takes from our packages and is not there; a scenario's imports
    are run in a VM only."""
    ours = [
        (node.module, TREE / Path(*node.module.split(".")))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.split(".")[0] in ("lab", "sluice", "tests")
    ]
    return [
        name
        for name, path in ours
        if not path.with_suffix(".py").is_file() and not path.is_dir()
    ]


@pytest.mark.parametrize(("folder", "package"), FORBIDDEN)
def test_import_direction(folder, package) -> None:
    assert list((TREE / folder).rglob("*.py")), f"{folder}/: holds no source"
    assert wrong_imports(folder, package) == []


@pytest.mark.parametrize("folder", ["lab", "sluice", "tests"])
def test_imported_modules_exist(folder) -> None:
    sources = [path.read_text() for path in (TREE / folder).rglob("*.py")]
    assert [name for text in sources for name in missing_modules(text)] == []


def test_a_wrong_import_and_a_missing_module_are_found() -> None:
    assert wrong_imports("lab/checks", "lab.machines")
    source = "from a import b\ndef f():\n    import c.d\n    from lab.nowhere import e\n"
    assert {*parse_imports(source)} == {"a", "a.b", "c.d", "lab.nowhere", "lab.nowhere.e"}
    assert missing_modules(source) == ["lab.nowhere"]


# Circles


def imports_within(package: str) -> dict[str, set[str]]:
    """Each module of a package, and which of the package's it imports. A folder's own
    __init__.py may import the folder's modules in a function: it is no module here."""
    paths = {
        ".".join(path.relative_to(TREE).with_suffix("").parts): path
        for path in (TREE / package).rglob("*.py")
    }
    return {
        name: ({*parse_imports(path.read_text())} & paths.keys()) - {name}
        for name, path in paths.items()
    }


def in_circles(imports: dict[str, set[str]]) -> set[str]:
    """What is left when modules that import nothing that is left go, again and again."""
    left = dict(imports)
    while ends := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in ends:
            del left[name]
    return set(left)


@pytest.mark.parametrize("package", ["lab", "sluice"])
def test_no_module_is_in_a_circle(package: str) -> None:
    assert in_circles(imports_within(package)) == set()


def test_a_circle_is_found() -> None:
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"a", "b", "c"}
