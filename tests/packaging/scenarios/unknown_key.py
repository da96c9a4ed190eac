# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that checks signatures, as Secure Boot makes it.

The last of the boot: what is checked once is checked until the next.
"""

from __future__ import annotations

from pathlib import Path

from lab.scenarios import Env, scenario
from tests.kernel.scenarios._traffic import sink
from tests.packaging.scenarios._machine import (
    apt_install,
    assert_stock,
    has_command,
    module_files,
    run,
)


@scenario(deadline=900)
def unknown_key_leaves_stock(env: Env) -> None:
    enforced = Path("/sys/module/module/parameters/sig_enforce")
    if not enforced.exists():
        env.skip("a kernel that checks signatures of modules")
    enforced.write_text("1")
    sink(env, ring=100)
    done = apt_install(env)
    assert module_files(), done.said
    words = ("mokutil --import", "reboot") if "mok" in done.said else ("key to sign",)
    assert_stock(env, done, "not loaded", *words)
    if has_command():
        assert run("sluice", "doctor").status == 1
