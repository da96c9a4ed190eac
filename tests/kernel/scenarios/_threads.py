# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of a scenario that repeat something until its end."""

from __future__ import annotations

import threading
from typing import Callable, TypeVar

JOIN_SECONDS = 10.0
Self = TypeVar("Self", bound="Repeated")


class Repeated:
    """A thread for each step, which repeats it until end().

    rest: seconds before each step; may be changed at any time. A step that can wait
    for long reads `ended` and returns.
    """

    def __init__(self, *steps: Callable[[], object], rest: float = 0.0) -> None:
        self.rest = rest
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(step,), daemon=True)
            for step in steps
        ]
        for thread in self._threads:
            thread.start()

    def _repeat(self, step: Callable[[], object]) -> None:
        while not self.ended:
            if not self.rest or not self._ended.wait(self.rest):
                step()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def end(self) -> None:
        """No step runs when this returns."""
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=JOIN_SECONDS)
            assert not thread.is_alive(), "a thread is stuck"

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
