# SPDX-License-Identifier: GPL-2.0-or-later
"""A veth pair: what one end sends, the other receives."""

from __future__ import annotations

from lab.guest.devices import silence_first_netns
from lab.guest.scenarios import Env

SOURCE, ENTRY = "source0", "entry0"


def veth_pair(env: Env) -> None:
    """Both ends up, until the scenario's end, or that of a namespace they are in."""
    silence_first_netns()
    env.run("ip", "link", "add", SOURCE, "type", "veth", "peer", "name", ENTRY)
    env.defer(env.run, "sh", "-c", f"ip link del {SOURCE} 2>&- || true")
    for name in (SOURCE, ENTRY):
        env.run("ip", "link", "set", name, "up")
