# SPDX-License-Identifier: GPL-2.0-or-later
"""No two modules of a package import each other, on whatever way."""

from __future__ import annotations

import pytest

from tests.unit.test_imports import TREE, parse_imports


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
