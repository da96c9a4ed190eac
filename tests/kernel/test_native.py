# SPDX-License-Identifier: GPL-2.0-or-later
"""The native machine comes up, and sluice works in it; make test-all plays all there."""

from __future__ import annotations

import pytest

from lab.checks.testing import play
from lab.failure import Unsuitable
from lab.machines.matrix import NATIVE

SMOKE = [
    "loading.loads_and_unloads",
    "full_ring.full_ring_stops_queue",
    "full_ring.room_wakes_queue",
    "full_ring.sockets_lose_nothing",
    "lifecycle.unload_leaves_no_stopped_queue",
]


def test_queue_stops_wakes_and_loses_nothing(show) -> None:
    try:
        played = play(NATIVE, SMOKE, show)
    except Unsuitable as reason:
        pytest.skip(str(reason))
    assert played.trouble == []
    outcomes = {name: one.outcome for name, one in played.outcomes.items()}
    assert outcomes == dict.fromkeys(SMOKE, "passed"), played.outcomes
