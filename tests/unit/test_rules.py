# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules on their way from the files to the module."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from sluice import config, rules, system
from sluice.errors import Denied, NetlinkError, SluiceError
from tests.unit._machine import Machine


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Time passes only in sleep(); how long each was."""
    slept: list[float] = []
    monkeypatch.setattr(rules.time, "monotonic", lambda: 100.0 + sum(slept))
    monkeypatch.setattr(rules.time, "sleep", slept.append)
    return slept


def refuse(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int) -> list[int]:
    """set_rules() fails so often; the calls."""
    calls: list[int] = []

    def set_rules(*_: object) -> None:
        calls.append(1)
        if len(calls) <= times:
            raise error

    monkeypatch.setattr(system, "set_rules", set_rules)
    return calls


def test_module_that_is_not_ready_yet_is_waited_for(machine, monkeypatch, clock) -> None:
    calls = refuse(monkeypatch, LookupError(), times=3)
    assert rules.load(config.Rules())
    assert len(calls) == 4 and len(clock) == 3


def test_module_that_never_answers_is_waited_for_with_a_bound(
    machine, monkeypatch, clock
) -> None:
    refuse(monkeypatch, LookupError(), times=1_000_000)
    assert not rules.load(config.Rules())
    assert rules.COMING_SECONDS <= sum(clock) < rules.COMING_SECONDS + 1


def test_module_that_is_not_loaded_is_not_waited_for(machine: Machine, clock) -> None:
    machine.loaded = False
    assert not rules.load(config.Rules())
    assert clock == []


@pytest.mark.parametrize(
    ("reason", "where"),
    [("Operation not permitted", "as root"), ("not in this namespace", "on the host")],
)
def test_denial_says_who_may(machine, monkeypatch, reason: str, where: str) -> None:
    refuse(monkeypatch, NetlinkError(errno.EPERM, reason), times=1)
    with pytest.raises(Denied, match=f"^rules: {reason}; run it {where}$"):
        rules.load(config.Rules())


@pytest.mark.parametrize(
    ("text", "others"), [("x y\n", ""), ("x y\nx z\nx z\n", " (and 2 more)")]
)
def test_other_wrong_lines_are_counted(machine, text: str, others: str) -> None:
    config.PATH.write_text(text)
    with pytest.raises(SluiceError) as refused:
        rules.check(config.read_all())
    assert f"after the pattern{others}; nothing was changed" in str(refused.value)
    rules.check(config.Rules())


def test_module_gets_patterns_as_it_reads_them(machine: Machine) -> None:
    config.PATH.write_text("a\\b off\n")
    assert rules.load(config.read_all(), ["c\\d"])
    assert [one.pattern for one in machine.rules] == ["a[\\]b"]
    assert machine.reset_calls == [("c[\\]d",)]


def test_rule_that_is_in_no_file_any_more_is_found(machine: Machine) -> None:
    config.PATH.write_text("tap0 off\ntap1 off\n")
    assert rules.load(config.read_all())
    loaded = list(machine.rules)
    config.PATH.write_text("tap0 off\n")
    assert rules.drift(config.read_all(), loaded) == [
        f"no longer in a file: tap1 ({loaded[1].origin})"
    ]
