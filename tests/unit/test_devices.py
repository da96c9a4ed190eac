# SPDX-License-Identifier: GPL-2.0-or-later
"""What is known of a device, from the kernel and from the module."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sluice import devices
from sluice.cli import main
from tests.unit._machine import DEVICE0, QUEUE0, TAP0, Machine


def seen(machine: Machine) -> devices.View:
    (view,) = [one for one in devices.read_machine().views if one.name == "tap0"]
    return view


def test_counter_that_began_again_has_no_rate() -> None:
    before, now = {"a": 10, "b": 10}, {"a": 4, "b": 16}
    assert devices.per_second(before, now, 2.0) == {"a": 0, "b": 3}
    assert devices.per_second(before, now, 0.0) == {"a": 0, "b": 0}


def test_without_the_module_its_counters_are_unknown_and_not_zero(
    machine: Machine, capsys
) -> None:
    machine.loaded = False
    view = seen(machine)
    assert (view.total("stops"), view.wakes, view.on) == (None, None, None)
    assert main(["--json"]) == 0
    tap0 = json.loads(capsys.readouterr().out)["devices"][0]
    assert (tap0["stops"], tap0["wakes"], tap0["fill"]) == (None, None, None)
    assert main([]) == 0
    row = capsys.readouterr().out.splitlines()[2].split()
    assert row[:9] == "tap0 stock fq_codel 1000 slots - - - 17".split()


def test_queues_and_ring_are_those_that_the_module_sees(machine: Machine) -> None:
    machine.links[0] = replace(TAP0, queues=8, ring=700)
    machine.devices[0] = replace(DEVICE0, queues=3)
    machine.queues = [QUEUE0, replace(QUEUE0, id=1, ring=2000)]
    assert (seen(machine).queue_count, seen(machine).ring) == (3, 2000)
    machine.queues = []
    assert seen(machine).ring == 700
    machine.loaded = False
    assert (seen(machine).queue_count, seen(machine).ring) == (8, 700)


@pytest.mark.parametrize(
    ("flag", "state", "upstream"),
    [
        (None, "upstream", True),  # without sysfs the module knows
        (None, "served", None),
        (False, "served", False),
        (True, "off", True),
    ],
)
def test_who_knows_that_the_driver_serves(machine, flag, state, upstream) -> None:
    machine.links[0] = replace(TAP0, upstream=flag)
    machine.devices[0] = replace(DEVICE0, state=state)
    assert seen(machine).upstream is upstream


def test_namespaces_that_were_entered_are_counted(machine: Machine) -> None:
    machine.namespaces = {"": 1, "red": 2, "blue": 3, "odd": 4}
    machine.denied, machine.stale = {"red", "blue"}, {"odd"}
    found = devices.read_machine()
    assert (found.namespaces, found.hidden, len(found.failed)) == (1, 2, 1)


def test_two_similar_names_are_suggested() -> None:
    known = ["vnet0", "vnet1", "vnet1", "tun0"]
    assert devices.suggestion("vnet", known) == "did you mean vnet1 or vnet0?"
    assert devices.suggestion("x", known) == ""
