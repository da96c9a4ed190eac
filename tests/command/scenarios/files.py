# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules in files: what the kernel takes for a name, and files that cannot be replaced."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import struct
from pathlib import Path

from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_NO_PI, IFF_TUN, TUNSETIFF
from sluice import config
from sluice.netlink import Client
from tests.kernel.scenarios._command import CONFIG, SECONDS, needs_click, sluice


def kernel_takes(name: bytes) -> bool:
    """Whether a device can have this name, and no other in its place."""
    fd = os.open("/dev/net/tun", os.O_RDWR)
    try:
        request = struct.pack("16sH22x", name, IFF_TUN | IFF_NO_PI)
        with contextlib.suppress(OSError):
            answer = fcntl.ioctl(fd, TUNSETIFF, request)
            return answer[:16].rstrip(b"\0") == name
        return False
    finally:
        os.close(fd)


@scenario(deadline=SECONDS, on="newest", often=False)
def names_are_those_that_the_kernel_takes(env: Env) -> str:
    needs_click(env)
    names = [b"x" + bytes([byte]) for byte in range(1, 256)]
    names += [b".", b"..", b"...", b"x%d", b"%", b"x" * 15, "caf\xe9".encode()]
    names += ["t\xe0p".encode(), b"\xef\xbb\xbfvnet0", b"-x", b"#x", b"[x", b"*"]
    for name in names:
        pattern = glob.escape(os.fsdecode(name))
        assert (config.unmatchable(pattern) == "") == kernel_takes(name), name
    return f"{len(names)} names"


def rules_of_module() -> list[tuple[str, bool]]:
    with Client() as client:
        return [(str(rule.pattern), bool(rule.on)) for rule in client.rules()]


def has_findings(subject: str) -> bool:
    findings = json.loads(sluice("doctor", "--json", status=None))["findings"]
    return any(one["subject"] == subject for one in findings)


@scenario(deadline=SECONDS, on="newest", often=False)
def file_and_module_change_together_or_not_at_all(env: Env) -> None:
    """A bind mount is written in place; one that is read-only changes nothing."""
    needs_click(env)
    env.load()
    source = Path("/run/sluice.conf.bound")
    source.write_text("vpn* off\n# the end\n")
    env.defer(source.unlink)
    CONFIG.touch()
    env.run("mount", "--bind", str(source), str(CONFIG))
    env.defer(env.run, "umount", str(CONFIG))
    sluice("off", "here0")
    text = source.read_text()
    assert text == "vpn* off\n# the end\nhere0 off\n" == CONFIG.read_text(), text
    assert rules_of_module() == [("vpn*", False), ("here0", False)]
    env.run("mount", "-o", "remount,bind,ro", str(CONFIG))
    said = sluice("on", "here0", status=1)
    assert "read-only file system" in said and "as root" not in said, said
    assert source.read_text() == text
    assert rules_of_module() == [("vpn*", False), ("here0", False)]
    assert not has_findings("rules")
