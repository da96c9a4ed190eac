# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests of libvirt, which sets noqueue on their taps.

Only roots with the packages have it: see tests/kernel/test_programs.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

from lab.guest.devices import Device
from lab.guest.program import succeeds
from lab.guest.scenarios import Env, scenario
from tests.kernel.scenarios._command import (
    CONFIG,
    REPOSITORY,
    SLUICE,
    needs_click,
    sluice,
)
from tests.kernel.scenarios._links import assert_full_ring_stops, empty_bridge

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
BRIDGE = "bridge0"
TO_BRIDGE = f"""\
<interface type="bridge">
  <mac address="{GUEST_MAC}"/><source bridge="{BRIDGE}"/>
  <model type="virtio"/><rom enabled="no"/>
</interface>"""
# A virtual network of libvirt's own, with a DHCP server; the guest is the firmware's boot
# program, which drives the card and asks for an address.
NETWORK_MAC = "02:00:00:00:95:02"
NETWORK = """\
<network>
  <name>net0</name><bridge name="virbr0" stp="off" delay="0"/>
  <ip address="10.95.0.1" netmask="255.255.255.0">
    <dhcp><range start="10.95.0.2" end="10.95.0.2"/></dhcp>
  </ip>
</network>
"""
TO_NETWORK = f"""\
<interface type="network">
  <mac address="{NETWORK_MAC}"/><source network="net0"/><model type="virtio"/>
</interface>"""
# libvirt gives vhost-net to guests with KVM alone: this gives it to an emulated one.
EMULATOR = Path("/usr/local/bin/emulator-with-vhost")
WITH_VHOST = """\
#!/bin/bash
plain='"type":"tap",'
exec /usr/bin/qemu-system-x86_64 "${@//$plain/$plain\\"vhost\\":true,}"
"""


def _describe(interface: str, emulator: str = "/usr/bin/qemu-system-x86_64") -> Path:
    """The file of a guest with this interface."""
    guest = Path("/tmp/guest.xml")
    guest.write_text(f"""\
<domain type="qemu">
  <name>guest</name>
  <memory unit="MiB">64</memory>
  <os><type arch="x86_64">hvm</type><boot dev="network"/></os>
  <features><acpi/></features>
  <devices>
    <emulator>{emulator}</emulator>
    {interface}
    <memballoon model="none"/>
  </devices>
</domain>
""")
    return guest


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
        env.skip("no libvirt: tests/kernel/test_programs.py plays this")
    (FOLDER / "qemu.conf").write_text(QEMU_CONF)
    (FOLDER / "libvirtd.conf").write_text(DAEMON_CONF)
    COMMAND.write_text(f'#!/bin/sh\nexec {SLUICE[0]} {SLUICE[1]} "$@"\n')
    COMMAND.chmod(0o755)
    env.defer(COMMAND.unlink)
    env.load()
    CONFIG.write_text("vnet* on qdisc=fq_codel\n")


def _taps(env: Env) -> list[str]:
    table = env.run("virsh", "domiflist", "guest").strip().splitlines()
    return [line.split()[0] for line in table[2:]]  # below a head and a line


@contextlib.contextmanager
def _guest(env: Env, guest: Path, *how: str) -> Iterator[str]:
    """The tap of a guest that libvirt has started."""
    env.run("virsh", "create", *how, str(guest))
    try:
        yield _taps(env)[0]
    finally:
        env.run("virsh", "destroy", "guest")


@contextlib.contextmanager
def _following() -> Iterator[None]:
    with subprocess.Popen(
        [*SLUICE, "apply", "--follow"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "1 rule loaded\n"
            yield
        finally:
            process.kill()


def _qdisc(env: Env, tap: str) -> str:
    return env.run("tc", "qdisc", "show", "dev", tap)


def _wait_for_qdisc(env: Env, tap: str) -> None:
    what = f"{tap} has fq_codel"
    env.wait_for(lambda: "fq_codel" in _qdisc(env, tap), what, seconds=60)


@scenario(deadline=SECONDS, often=False)
def hook_attaches_the_rules_qdisc_to_a_started_guest(env: Env) -> None:
    """The guest is paused: it reads nothing."""
    needs_click(env)
    _start(env)
    env.enter(empty_bridge())
    guest = _describe(TO_BRIDGE)
    with _daemon(env), _guest(env, guest, "--paused") as tap:
        assert "noqueue" in _qdisc(env, tap), "libvirt sets it"
    HOOK.parent.mkdir(exist_ok=True)
    HOOK.write_text(documented_hook())
    HOOK.chmod(0o755)
    env.defer(HOOK.unlink)
    with _daemon(env), _guest(env, guest, "--paused") as tap:
        assert "fq_codel" in _qdisc(env, tap)
        assert_full_ring_stops(env, Device(tap, "10.93.0.2", GUEST_MAC), BRIDGE)


def _start_network(env: Env) -> None:
    description = Path("/tmp/network.xml")
    description.write_text(NETWORK)
    env.run("virsh", "net-create", str(description))
    env.defer(env.run, "virsh", "net-destroy", "net0")
    env.run("modprobe", "vhost_net")
    EMULATOR.write_text(WITH_VHOST)
    EMULATOR.chmod(0o755)
    env.defer(EMULATOR.unlink)


@scenario(deadline=2 * SECONDS, often=False)
def follow_attaches_it_to_taps_of_a_virtual_network(env: Env) -> None:
    """vhost-net reads the tap of a guest that is at work, and a full ring stops it; a
    card that the running guest is given gets the qdisc, too."""
    needs_click(env)
    _start(env)
    env.enter(_following())
    env.enter(_daemon(env))
    _start_network(env)
    tap = env.enter(_guest(env, _describe(TO_NETWORK, str(EMULATOR))))
    _wait_for_qdisc(env, tap)

    def has_address() -> bool:
        return "10.95.0.2" in env.run("virsh", "net-dhcp-leases", "net0")

    env.wait_for(has_address, "the guest has asked for an address", seconds=300)
    (device,) = json.loads(sluice("--json", tap))["devices"]
    assert any(owner["vhost"] for owner in device["owners"]), device
    assert_full_ring_stops(env, Device(tap, "10.95.0.2", NETWORK_MAC), "virbr0")
    env.run("virsh", "attach-interface", "guest", "network", "net0", "--model", "virtio")
    _wait_for_qdisc(env, _taps(env)[1])
