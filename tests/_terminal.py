# SPDX-License-Identifier: GPL-2.0-or-later
"""A terminal with a program in it, and what that has shown."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def own_terminal() -> None:
    """In the child: Ctrl-C reaches it, and so does a hang-up, below nohup too."""
    fcntl.ioctl(1, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Terminal:
    """The program's whole output is kept, with its control sequences."""

    def __init__(
        self,
        command: Sequence[str],
        columns: int = 80,
        lines: int = 10,
        keyboard: bool = True,
        **environment: str,
    ) -> None:
        self.primary, self.secondary = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self.secondary)
        self.shown = b""
        self.process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment},
            stdin=self.secondary if keyboard else subprocess.DEVNULL,
            stdout=self.secondary,
            stderr=self.secondary,
            start_new_session=True,
            preexec_fn=own_terminal,
        )

    def resize(self, columns: int, lines: int = 10) -> None:
        termios.tcsetwinsize(self.secondary, (lines, columns))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.secondary)
        os.close(self.primary)

    def type(self, key: bytes) -> None:
        os.write(self.primary, key)

    def wait_for(self, done: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, self.shown
            if select.select([self.primary], [], [], 0.1)[0]:
                self.shown += os.read(self.primary, 65536)

    def read_rest(self) -> None:
        """What it said at its end."""
        while select.select([self.primary], [], [], 0)[0]:
            self.shown += os.read(self.primary, 65536)

    def screen(self) -> list[str]:
        """The lines of the last whole screen of watch; each begins with the heading."""
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.shown.decode(errors="replace"))
        screens = text.split("QUEUE  ")
        return f"QUEUE  {screens[-2]}".splitlines() if len(screens) > 2 else []

    def widths(self) -> list[int]:
        return [len(line) for line in self.screen()]
