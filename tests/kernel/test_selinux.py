# SPDX-License-Identifier: GPL-2.0-or-later
"""With SELinux enforcing, the module is loaded at boot and nothing is denied to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.machines.matrix import kernel_named
from tests.kernel import _selinux as selinux

# A tap with a ring of 8 that nobody reads gets packets until its queue is stopped. The
# policy lets the job create it, and "ip" not.
FILL = """
import socket, subprocess, time
from lab.guest.tun import IFF_NO_PI, IFF_TAP, open_queue
from sluice.netlink import Client
tap = open_queue(IFF_TAP | IFF_NO_PI, "here")
for words in (
    "link set here up txqueuelen 8",
    "address add 10.9.0.1/24 dev here",
    "neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev here",
):
    subprocess.run(["ip", *words.split()], check=True)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
deadline = time.monotonic() + 30
stops = 0
while not stops and time.monotonic() < deadline:
    for _ in range(23):
        sender.sendto(b"packet", ("10.9.0.2", 9))
    stops = Client().queues()[0].stops
print("here: stopped" if stops else f"here: {Client().devices()}")
"""
# open_tun does what sluice does, but with its loader's credentials: the policy must
# refuse that, and the refusal must be logged.
SCRIPT = f"""
denials() {{ ausearch --message avc --raw 2>&1 | sed -n "s/.*avc: *denied/$1: &/p"; }}
systemctl is-system-running --wait >/dev/null
echo "enforce: $(cat /sys/fs/selinux/enforce)"
echo "audit: $(systemctl is-active auditd)"
echo "loader: $(systemctl is-active systemd-modules-load)"
echo "loaded: $(grep -c '^sluice ' /proc/modules)"
python3 -c '{FILL}' 2>&1
denials before
systemctl start {selinux.OPEN_TUN.name} 2>&1
dmesg | grep 'open_tun:'
denials after
"""
# A denial that names one of these may be the module's.
OURS = ("sluice", "tun", "modules-load", "modules_load", "modprobe", "kmod")


def test_module_is_loaded_at_boot_and_nothing_is_denied(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    if not pytestconfig.getoption("--every"):
        pytest.skip("needs a root of its own; make test-all has it")
    said, trouble = selinux.run(kernel_named("6.12"), SCRIPT, tmp_path)
    assert not trouble, trouble
    for line in ("enforce: 1", "audit: active", "loader: active", "loaded: 1"):
        assert line in said, said
    assert "here: stopped" in said, said
    before = [line for line in said if line.startswith("before:")]
    enforced = [line for line in before if "permissive=0" in line]
    assert not [line for line in enforced if any(word in line for word in OURS)], before
    assert any("open_tun: refused (-13)" in line for line in said), said
    after = [line for line in said if line.startswith("after:")]
    refused = [line for line in after if 'name="tun"' in line]
    assert any("permissive=0" in line for line in refused), after
