# SPDX-License-Identifier: GPL-2.0-or-later
"""Loading and unloading, with nothing else going on."""

from __future__ import annotations

import os

from lab.scenarios import Env, scenario


@scenario
def loads_and_unloads(env: Env) -> None:
    env.load()
    assert os.path.exists("/sys/module/sluice")
    env.run("rmmod", "sluice")
    assert not os.path.exists("/sys/module/sluice")
