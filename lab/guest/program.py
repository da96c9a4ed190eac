# SPDX-License-Identifier: GPL-2.0-or-later
"""A process of an application: its log, its end."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.failure import WorkloadError
from lab.guest.devices import Device, run_tool, wait_until
from lab.processes import last_line, running

FOLDER = Path("/run/sluice-lab")
READY_SECONDS = 30.0
SO_SNDBUFFORCE = 32  # asm-generic/socket.h; not in Python's module
ENDING_SECONDS = 1.0  # for it to end after its device is gone


def folder(name: str) -> Path:
    """A folder for an application's keys and configuration; lasts one boot."""
    path = FOLDER / name
    path.mkdir(parents=True, exist_ok=True)
    return path


@dataclass
class Program:
    """A child of ours, with its log; whoever waits for it sees when it has ended."""

    name: str
    process: subprocess.Popen[str]
    log: Path

    def wait_until(
        self, ready: Callable[[], bool], what: str, seconds: float = READY_SECONDS
    ) -> None:
        def done() -> bool:
            self.check()
            return ready()

        wait_until(done, f"{self.name}: {what}", seconds, pause=0.05)

    def check(self, seconds: float = 0.0) -> None:
        """Fails if it ended, or does so soon."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        if self.process.returncode is None:
            return
        last = last_line(self.log.read_text(errors="replace"))
        status = self.process.returncode
        raise WorkloadError(f"{self.name}: ended, status {status}, and said: {last}")


@contextlib.contextmanager
def program(end: Device, argv: Sequence[str]) -> Iterator[Program]:
    """The process, in the namespace of that end of the path."""
    name = Path(argv[0]).name
    log = folder(name) / f"{end.netns}.log"
    files = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    with open(log, "w") as output:
        with running(end.command(*argv), stdout=output, **files) as process:
            own = Program(name, process, log)
            try:
                yield own
            except WorkloadError:
                own.check(ENDING_SECONDS)  # if it ended, that is why
                raise
            finally:
                process.terminate()  # if it does not end, it is killed
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=3)


def succeeds(argv: Sequence[str]) -> bool:
    return subprocess.run(argv, capture_output=True).returncode == 0


def has_device(device: Device) -> bool:
    return succeeds(["ip", "-n", str(device.netns), "link", "show", device.name])


def read_version(package: str) -> str:
    return run_tool(["dpkg-query", "-W", "-f", "${Package} ${Version}", package])


def read_sent(sender: subprocess.Popen[str]) -> dict[str, Any]:
    """What the helper "sender" prints at its end, which is waited for."""
    output = sender.communicate()[0]
    if sender.returncode:
        raise WorkloadError(f"sender: status {sender.returncode}; see its message")
    return dict(json.loads(output))
