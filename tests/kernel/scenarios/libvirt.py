# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest of libvirt, which sets noqueue on the guest's tap.

Only roots with the packages have it: see tests/kernel/test_libvirt.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Iterator

from lab.guest.devices import Device, add_neighbour
from lab.guest.program import succeeds
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._command import CONFIG, REPOSITORY, SLUICE, needs_click
from tests.kernel.scenarios._traffic import read_device, read_queues, send

SECONDS = 600
FOLDER = Path("/etc/libvirt")
HOOK = FOLDER / "hooks/qemu"
COMMAND = Path("/usr/local/sbin/sluice")
# No other daemon, no confinement: only what the guest's tap gets is looked at.
QEMU_CONF = """\
user = "root"
group = "root"
security_driver = "none"
dynamic_ownership = 0
stdio_handler = "file"
namespaces = []
cgroup_controllers = []
"""
DAEMON_CONF = 'auth_unix_rw = "none"\n'
GUEST_MAC = "02:00:00:00:94:02"
GUEST = f"""\
<domain type="qemu">
  <name>guest</name>
  <memory unit="MiB">32</memory>
  <os><type arch="x86_64">hvm</type></os>
  <devices>
    <interface type="bridge">
      <mac address="{GUEST_MAC}"/>
      <source bridge="br0"/><model type="virtio"/><rom enabled="no"/>
    </interface>
    <memballoon model="none"/>
  </devices>
</domain>
"""


def documented_hook() -> str:
    """The script of docs/install.md: its only one."""
    page = (REPOSITORY / "docs/install.md").read_text()
    block = page.partition("    #!/bin/sh\n")[2].partition("\n\n")[0]
    return "#!/bin/sh\n" + textwrap.dedent(block) + "\n"


@contextlib.contextmanager
def _daemon(env: Env) -> Iterator[None]:
    """It looks for hooks when it starts."""
    path = f"{COMMAND.parent}:{os.environ['PATH']}"
    process = subprocess.Popen(["libvirtd"], env={**os.environ, "PATH": path})
    try:
        env.wait_for(
            lambda: succeeds(["virsh", "version"]), "libvirtd answers", seconds=120
        )
        yield
    finally:
        process.terminate()
        process.wait()


def _start(env: Env) -> None:
    if not shutil.which("libvirtd"):
        env.skip("no libvirt: tests/kernel/test_libvirt.py plays this")
    (FOLDER / "qemu.conf").write_text(QEMU_CONF)
    (FOLDER / "libvirtd.conf").write_text(DAEMON_CONF)
    COMMAND.write_text(f'#!/bin/sh\nexec {SLUICE[0]} {SLUICE[1]} "$@"\n')
    COMMAND.chmod(0o755)
    env.defer(COMMAND.unlink)
    env.run("ip", "link", "add", "br0", "type", "bridge")
    env.defer(env.run, "ip", "link", "del", "br0")
    env.run("ip", "link", "set", "br0", "up")


@contextlib.contextmanager
def _guest(env: Env) -> Iterator[str]:
    """The tap of a guest that libvirt has started, and that reads nothing."""
    guest = Path("/tmp/guest.xml")
    guest.write_text(GUEST)
    with _daemon(env):
        env.run("virsh", "create", "--paused", str(guest))
        try:
            table = env.run("virsh", "domiflist", "guest").splitlines()
            yield table[2].split()[0]  # below a head and a line
        finally:
            env.run("virsh", "destroy", "guest")


def _qdisc(env: Env, tap: str) -> str:
    return env.run("tc", "qdisc", "show", "dev", tap)


def _assert_full_ring_stops(env: Env, tap: str) -> None:
    """Of a device that has a qdisc; the bridge forwards to it."""
    guest = Device(tap, "10.94.0.2", GUEST_MAC)
    env.run("ip", "addr", "add", "10.94.0.1/24", "dev", "br0")
    add_neighbour("br0", guest)
    send(2000, guest)

    def stopped() -> bool:
        return any(queue.stops for queue in read_queues(guest))

    env.wait_for(stopped, "the queue of the guest's tap is stopped")
    assert read_device(guest).state == "served"


@scenario(deadline=SECONDS, often=False)
def hook_attaches_the_rules_qdisc_to_a_started_guest(env: Env) -> None:
    needs_click(env)
    _start(env)
    env.load()
    CONFIG.write_text("vnet* on qdisc=fq_codel\n")
    with _guest(env) as tap:
        assert "noqueue" in _qdisc(env, tap), "libvirt sets it"
    HOOK.parent.mkdir(exist_ok=True)
    HOOK.write_text(documented_hook())
    HOOK.chmod(0o755)
    env.defer(HOOK.unlink)
    with _guest(env) as tap:
        assert "fq_codel" in _qdisc(env, tap)
        _assert_full_ring_stops(env, tap)
