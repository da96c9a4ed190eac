# SPDX-License-Identifier: GPL-2.0-or-later
"""Who listens for events, and where."""

from __future__ import annotations

from sluice import monitor


class Ear:
    """In place of a listener."""

    made: list[Ear] = []

    def __init__(self) -> None:
        self.closed = False
        Ear.made.append(self)

    def close(self) -> None:
        self.closed = True


def test_a_module_that_is_loaded_again_is_heard_again(machine, monkeypatch) -> None:
    family = [27]
    monkeypatch.setattr(monitor, "Listener", Ear)
    monkeypatch.setattr(monitor, "read_family", lambda: family[0])
    machine.namespaces = {"": 1, "red": 2}
    Ear.made = []
    ears = monitor.Ears(None)
    ears.look_around()
    assert len(Ear.made) == 2
    family[0] = 0
    ears.look_around()
    assert all(ear.closed for ear in Ear.made) and ears.read(0) == []
    family[0] = 28
    del machine.namespaces["red"]
    ears.look_around()
    assert [ear.closed for ear in Ear.made] == [True, True, False]
