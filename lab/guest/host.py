# SPDX-License-Identifier: GPL-2.0-or-later
"""How much of the host's CPUs other processes use, for a native machine.

The host writes a line several times a second to the terminal that progress goes to: its
time, and the CPU seconds that others have used; see tell_load() in
lab/machines/native/boot.py.
"""

from __future__ import annotations

import os
import subprocess
import time
from typing import Tuple

TERMINAL = "/dev/tty1"
QUIET_PERCENT = 10.0  # with more, a sample says little


class HostLoad:
    def __init__(self) -> None:
        subprocess.run(["stty", "-F", TERMINAL, "-echo"], check=True)
        self._fd = os.open(TERMINAL, os.O_RDONLY | os.O_NONBLOCK)
        self._last = (0.0, 0.0)

    def read(self) -> Tuple[float, float]:
        """The newest line, after those that wait; waits for one that is fresh."""
        self._drain()
        while not self._drain():
            time.sleep(0.02)
        return self._last

    def _drain(self) -> bool:
        fresh = False
        while True:
            try:
                words = os.read(self._fd, 4096).decode().split()
            except BlockingIOError:
                return fresh
            if len(words) == 2:  # or some were lost meanwhile
                self._last, fresh = (float(words[0]), float(words[1])), True

    def percent_since(self, before: Tuple[float, float]) -> float:
        """Of all the host's CPUs."""
        now, used = self.read()
        seconds = max(now - before[0], 0.1) * (os.cpu_count() or 1)
        return round(max(0.0, 100 * (used - before[1]) / seconds), 1)
