# SPDX-License-Identifier: GPL-2.0-or-later
"""What systemd says of the machine, and a container on it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

# A device in a network namespace of its own; says whether it is on when asked.
CONTAINER = """
import sys
from lab.guest.tun import IFF_TUN
from sluice.netlink import Client
from tests.kernel.scenarios._tap import Tap
Tap(IFF_TUN, "tun0").open_queue()
print("open", flush=True)
for _ in sys.stdin:
    with Client() as client:
        (device,) = client.devices()
    print(device.on, flush=True)
"""


class Container:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-c", CONTAINER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._read() == "open"

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def is_on(self) -> bool:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._read() == "True"


@contextlib.contextmanager
def container() -> Iterator[Container]:
    one = Container()
    try:
        yield one
    finally:
        one.process.communicate()


def read_state() -> str:
    """running, degraded, ...: is-system-running has a status for each."""
    command = ["systemctl", "is-system-running", "--wait"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
