# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel scenarios have in common: most of them test what people run."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from lab.guest.scenarios import find_scenarios

SCENARIOS = Path(__file__).resolve().parents[1] / "kernel" / "scenarios"
SHARED = "_traffic"  # functions that load the module for several files

Functions = dict[str, ast.FunctionDef]


@functools.lru_cache(maxsize=None)
def functions_of(module: str) -> Functions:
    source = (SCENARIOS / f"{module}.py").read_text()
    body = ast.parse(source).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def calls(node: ast.AST) -> Iterator[ast.Call]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Call))


def loads(known: Functions, name: str, seen: frozenset[str] = frozenset()) -> set[bool]:
    """Of each env.load() that this function comes to: whether it has no parameters."""
    found: set[bool] = set()
    if name in seen or name not in known:
        return found
    for call in calls(known[name]):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "load":
            found.add(not call.args)
        if isinstance(call.func, ast.Name):
            found |= loads(known, call.func.id, seen | {name})
    return found


def scenarios_that_load() -> dict[str, set[bool]]:
    found = {}
    for scenario in find_scenarios("kernel"):
        module, name = scenario.name.split(".")
        found[scenario.name] = loads(functions_of(SHARED) | functions_of(module), name)
    return {scenario: how for scenario, how in found.items() if how}


def test_half_of_the_scenarios_run_with_default_parameters() -> None:
    found = scenarios_that_load()
    default = [scenario for scenario, how in found.items() if True in how]
    assert 2 * len(default) >= len(found), f"{len(default)} of {len(found)}"


def test_loads_are_found_through_helpers() -> None:
    found = scenarios_that_load()
    assert found["slow_readers.reader_in_bursts_holds_senders_shortly"] == {True}
    assert found["full_ring.two_direct_senders_lose_nothing"] == {False}
    assert found["third_parties.unread_queue_of_two_under_mq_leaves_the_other_its_rate"]
