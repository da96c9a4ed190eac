# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that checks signatures, as Secure Boot makes it.

The last of the boot: what is checked once is checked until the next, and
lockdown's before the other, which covers it.
"""

from __future__ import annotations

import json
from pathlib import Path

from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._traffic import sink
from tests.packaging.scenarios import _machine as debian

SECURITY = Path("/sys/kernel/security")
LOCKDOWN = SECURITY / "lockdown"
ENFORCED = Path("/sys/module/module/parameters/sig_enforce")


def _unknown_key_leaves_stock(env: Env, asked_by: str) -> None:
    sink(env, ring=100)
    if debian.has_command():
        refused = debian.run("/sluice/bin/sluice", "install")
        assert refused.status == 3 and asked_by in refused.said, refused.said
    done = debian.apt_install(env)
    assert debian.module_files(), done.said
    signed = Path("/var/lib/dkms/mok.pub").exists()  # not by DKMS 2.8
    words = ("mokutil --import", "reboot") if signed else ("key to sign",)
    debian.assert_stock(env, done, "not loaded", *words)
    if debian.has_command():
        verdict = debian.run("sluice", "doctor", "--json")
        assert verdict.status == 1, verdict.said
        found = {one["subject"]: one for one in json.loads(verdict.said)["findings"]}
        assert found["signing"]["level"] == "bad", verdict.said
        assert asked_by in found["signing"]["text"], verdict.said
        assert found["signing"]["fix"], verdict.said


@scenario(deadline=900, often=False)
def lockdown_without_an_enrolled_key_leaves_devices_unserved(env: Env) -> None:
    """What Debian's kernels do when they see Secure Boot."""
    if not LOCKDOWN.exists():
        env.run("busybox", "mount", "-t", "securityfs", "none", str(SECURITY))
    if not LOCKDOWN.exists():
        env.skip("a kernel with lockdown")
    LOCKDOWN.write_text("integrity")
    _unknown_key_leaves_stock(env, "lockdown")


@scenario(deadline=900, often=False)
def unknown_key_leaves_devices_unserved(env: Env) -> None:
    if not ENFORCED.exists():
        env.skip("a kernel that checks signatures of modules")
    ENFORCED.write_text("1")
    _unknown_key_leaves_stock(env, "sig_enforce")
