# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that checks signatures, as Secure Boot makes it.

The last of the boot: what is checked once is checked until the next.
"""

from __future__ import annotations

import json
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


@scenario(deadline=900, often=False)
def unknown_key_leaves_stock(env: Env) -> None:
    enforced = Path("/sys/module/module/parameters/sig_enforce")
    if not enforced.exists():
        env.skip("a kernel that checks signatures of modules")
    enforced.write_text("1")
    sink(env, ring=100)
    done = apt_install(env)
    assert module_files(), done.said
    signed = Path("/var/lib/dkms/mok.pub").exists()  # not by DKMS 2.8
    words = ("mokutil --import", "reboot") if signed else ("key to sign",)
    assert_stock(env, done, "not loaded", *words)
    if has_command():
        verdict = run("sluice", "doctor", "--json")
        assert verdict.status == 1, verdict.said
        found = {one["subject"]: one for one in json.loads(verdict.said)["findings"]}
        assert found["secure boot"]["level"] == "bad", verdict.said
        assert "sig_enforce" in found["secure boot"]["text"], verdict.said
        assert found["secure boot"]["mend"], verdict.said
