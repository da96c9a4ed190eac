# SPDX-License-Identifier: GPL-2.0-or-later
"""Who listens for events, and where."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import json
import time
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from sluice import monitor, rules
from sluice.namespaces import Namespace
from sluice.netlink import Event
from tests.unit._machine import raising


class Ear:
    """In place of a listener."""

    made: list[Ear] = []

    def __init__(self) -> None:
        self.closed = False
        Ear.made.append(self)

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def loaded(monkeypatch) -> None:
    """The module is loaded, and everybody who listens is an Ear."""
    Ear.made = []
    client = contextlib.nullcontext(SimpleNamespace(family=27))
    monkeypatch.setattr(monitor, "Client", lambda: client)
    monkeypatch.setattr(monitor, "Listener", Ear)


class Voice(Ear):
    """A listener that always has an event."""

    def __init__(self) -> None:
        super().__init__()
        self._file = open("/dev/zero", "rb")

    def fileno(self) -> int:
        return self._file.fileno()

    def read(self, seconds: float) -> list[Event]:
        return [STALL]

    def close(self) -> None:
        self._file.close()


def test_a_module_that_is_loaded_again_is_heard_again(
    machine, monkeypatch, capsys
) -> None:
    family = [27]
    monkeypatch.setattr(monitor, "read_family", lambda: family[0])
    machine.namespaces = {"": 1, "red": 2}
    ears = monitor.Ears(None)
    ears.look_around()
    assert len(Ear.made) == 2 and ears.describe() == "2 network namespaces"
    family[0] = 0
    ears.look_around()
    assert all(ear.closed for ear in Ear.made) and ears.read(0) == []
    family[0] = 28
    del machine.namespaces["red"]
    ears.look_around()
    assert [ear.closed for ear in Ear.made] == [True, True, False]
    machine.namespaces["blue"] = 3
    ears.look_around()
    del machine.namespaces["blue"]
    ears.look_around()
    assert [ear.closed for ear in Ear.made] == [True, True, False, True]
    family[0] = 29  # between two looks it was unloaded and loaded
    ears.look_around()
    assert [ear.closed for ear in Ear.made] == [True, True, True, True, False]
    assert capsys.readouterr().err.splitlines() == [
        "module: not loaded any more; waiting for it",
        "module: loaded again",
        "module: loaded again",
    ]


def test_lost_events_do_not_end_it(machine, monkeypatch, capsys) -> None:
    """A real descriptor, ready to be read; the second read finds an event again."""
    ready, other = os.pipe()
    os.write(other, b"x")
    answers = [OSError(errno.ENOBUFS, "no buffer space"), [STALL], OSError(errno.EIO, "")]

    class Deaf(Ear):
        def fileno(self) -> int:
            return ready

        def read(self, seconds: float) -> list[Event]:
            answer = answers.pop(0)
            if isinstance(answer, OSError):
                raise answer
            return answer

    monkeypatch.setattr(monitor, "Listener", Deaf)
    ears = monitor.Ears(None)
    assert ears.read(0) == []
    assert capsys.readouterr().err == "events were lost: more came than were read\n"
    assert [event for _, event in ears.read(0)] == [STALL]
    with pytest.raises(OSError):
        ears.read(0)
    os.close(ready)
    os.close(other)


def test_events_of_a_namespace_that_is_made_later_are_told(machine, monkeypatch) -> None:
    monkeypatch.setattr(monitor, "Listener", Voice)
    monkeypatch.setattr(monitor, "AGAIN_SECONDS", 0.0)
    told = monitor.events(None)
    assert next(told) == (Namespace("", 1), STALL)
    machine.namespaces["red"] = 2
    assert (Namespace("red", 2), STALL) in itertools.islice(told, 5)
    del machine.namespaces["red"]
    assert {one.name for one, _ in itertools.islice(told, 5, 10)} == {""}


def test_more_namespaces_than_files_may_be_open(machine, monkeypatch, capsys) -> None:
    class Rare(Ear):
        def __init__(self) -> None:
            if len(Ear.made) == 2:
                raise OSError(errno.EMFILE, "Too many open files")
            super().__init__()

    monkeypatch.setattr(monitor, "Listener", Rare)
    machine.namespaces = {"": 1, "red": 2, "blue": 3}
    ears = monitor.Ears(None)
    ears.look_around()
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("too many open files: hears 2 network namespaces") == 1, said


def test_without_the_module_it_says_so(machine, run, monkeypatch) -> None:
    monkeypatch.setattr(monitor, "Client", raising(LookupError()))
    assert run("monitor", 1).err == f"sluice: {rules.NOT_LOADED}\n"


STALL = Event(2, "tap0", 1, "stall", 3, 5, 8)


@pytest.mark.parametrize(("netns", "change", "text"), [
    ("", {}, "tap0 queue 1 stalled: reader too slow, 3 times; fill 5 of 8"),
    ("red", {"count": 1, "kind": "stop"},
     "tap0 (netns red) queue 1 stopped for the first time; fill 5 of 8"),
    ("", {"kind": "noqueue", "count": 1, "ring": 0},
     "tap0 has noqueue, though its rule names a qdisc"),
    ("", {"kind": "kind 9", "count": 2}, "tap0 queue 1 kind 9, 2 times; fill 5 of 8"),
])
def test_event_in_words(netns: str, change: dict, text: str) -> None:
    event = replace(STALL, **change)
    at = time.mktime((2026, 1, 2, 3, 4, 5, 0, 0, -1))
    assert monitor.format_event(Namespace(netns, 1), event, at) == f"03:04:05 {text}"


def test_named_devices_are_heard_until_ctrl_c(monkeypatch, run) -> None:
    def events(netns: str | None):
        for name in ("tun0", "tap0", "tap7", "vnet1"):
            yield Namespace("", 1), replace(STALL, ifname=name)
        raise KeyboardInterrupt

    monkeypatch.setattr(monitor, "events", events)
    said = run("monitor tap* vnet1")
    heard = [line.split()[1] for line in said.out.splitlines()]
    assert heard == ["tap0", "tap7", "vnet1"] and said.err == ""


def test_namespaces_that_cannot_be_entered(machine, monkeypatch, run) -> None:
    machine.namespaces, machine.stale = {"": 1, "red": 2, "odd": 3}, {"odd"}
    monitor.Ears("red")
    assert len(Ear.made) == 1
    monitor.Ears(None)
    assert len(Ear.made) == 3
    assert "netns odd: cannot be entered" in run("monitor --netns odd", 1).err


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_command_ends_after_so_many_events(monkeypatch, run, more: list[str]) -> None:
    pair = (Namespace("red", 2), STALL)
    monkeypatch.setattr(monitor, "events", lambda netns: itertools.repeat(pair))
    lines = run(["monitor", "--count", "2", *more]).out.splitlines()
    assert len(lines) == 2
    if more:
        answer = json.loads(lines[0])
        assert answer.pop("time") > 0 and answer.pop("schema")
        assert answer == {"netns": "red", **asdict(STALL)}
