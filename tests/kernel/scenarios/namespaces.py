# SPDX-License-Identifier: GPL-2.0-or-later
"""The administrator of a device's namespace may set it."""

from __future__ import annotations

import errno
import subprocess
import sys

from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._traffic import read_device, sink

# Switches the only device off; with an argument it makes the device first.
ADMIN = """
import sys
from sluice.errors import NetlinkError
from lab.guest.tun import IFF_TAP
from sluice.netlink import Client
from tests.kernel.scenarios._tap import Tap
if len(sys.argv) > 1:
    tap = Tap(IFF_TAP)
    tap.open_queue()
with Client() as client:
    (device,) = client.devices()
    try:
        client.set_device(device.ifindex, on=0)
    except NetlinkError as error:
        print(error.code)
    else:
        print(client.device(device.ifindex).on)
"""


def _as_admin(*arguments: str) -> str:
    """The output of a command that runs as root of a new user namespace."""
    command = ["unshare", "--user", "--map-root-user", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout or done.stderr


@scenario(on="newest-native")
def administrator_of_a_namespace_sets_its_devices_alone(env: Env) -> None:
    """As in a container: the devices of its own network namespace, not ours."""
    env.load()
    sink(env)
    own = _as_admin("--net", sys.executable, "-c", ADMIN, "own")
    assert own == "False\n", own
    ours = _as_admin(sys.executable, "-c", ADMIN)
    assert ours == f"{errno.EPERM}\n", ours
    assert read_device().on
