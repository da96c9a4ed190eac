# SPDX-License-Identifier: GPL-2.0-or-later
"""The units beside what mounts file systems and brings up the network.

systemd orders the jobs of a boot, offline: units of the installed systemd, mounts that
its generator makes of an fstab, and the services of a network in a folder of the test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
SYSTEM = Path("/usr/lib/systemd/system")
GENERATOR = Path("/usr/lib/systemd/system-generators/systemd-fstab-generator")
pytestmark = pytest.mark.skipif(
    not (shutil.which("systemd-analyze") and GENERATOR.exists() and SYSTEM.is_dir()),
    reason="no systemd-analyze on this machine (Debian: apt install systemd)",
)

ROOT = "UUID=5eaf00d5-0000-4000-8000-000000000001 / ext4 errors=remount-ro 0 1\n"
NFS, LOCAL = "nfs defaults,_netdev 0 0", "ext4 defaults 0 2"
FSTABS = {
    "root alone": "",
    "var on NFS": f"192.0.2.1:/var /var {NFS}\n",
    "tmp and var/tmp on NFS": f"192.0.2.1:/t /var/tmp {NFS}\n192.0.2.1:/tmp /tmp {NFS}\n",
    "var on iSCSI": "/dev/sdb1 /var ext4 _netdev 0 2\n",
    "var by its service": "/dev/sdb1 /var ext4 x-systemd.requires=iscsid.service 0 2\n",
    "var on CIFS": f"//192.0.2.1/v /var cifs guest 0 0\n192.0.2.1:/home /home {NFS}\n",
    "usr and var apart": f"/dev/sda2 /usr {LOCAL}\n/dev/sda3 /var {LOCAL}\n",
    "usr on NFS": "192.0.2.1:/usr /usr nfs defaults,_netdev,x-initrd.mount 0 0\n",
}
EARLY = "DefaultDependencies=no\nConflicts=shutdown.target\nBefore=shutdown.target\n"
# What the services of these packages say about their order.
NETWORKS = {
    "ifupdown": {
        "networking.service": EARLY + "Wants=network.target\nBefore=network.target "
        "network-online.target\nAfter=local-fs.target network-pre.target "
        "systemd-modules-load.service",
    },
    "networkd": {},
    "NetworkManager": {
        "NetworkManager.service": "Wants=network.target\nAfter=network-pre.target "
        "dbus.service\nBefore=network.target",
        "NetworkManager-wait-online.service": "Requires=NetworkManager.service\n"
        "After=NetworkManager.service\nBefore=network-online.target",
    },
}
OTHERS = {
    "nftables.service": EARLY + "Wants=network-pre.target\nBefore=network-pre.target",
    "iscsid.service": EARLY + "Wants=network-online.target\n"
    "After=network-online.target\nBefore=remote-fs-pre.target",
}
ONESHOT = "\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"


def place(folder: Path, units: dict[str, str]) -> None:
    """Units in a folder, which the boot wants."""
    wants = folder / "multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    for name, text in units.items():
        if name.endswith(".service"):
            (folder / name).write_text(text)
            (wants / name).symlink_to(f"../{name}")


def enable_networkd(folder: Path) -> None:
    for name in ("systemd-networkd", "systemd-networkd-wait-online"):
        target = "network-online" if name.endswith("online") else "multi-user"
        wants = folder / f"{target}.target.wants"
        wants.mkdir(exist_ok=True)
        (wants / f"{name}.service").symlink_to(SYSTEM / f"{name}.service")


def harmless(text: str) -> str:
    """A unit with commands that this machine has."""
    return re.sub(r"^(Exec\w+)=.*", r"\1=/bin/true", text, flags=re.M)


def ours() -> dict[str, str]:
    """The units as in a package."""
    paths = TREE.glob("packaging/*.service")
    return {path.name: harmless(path.read_text()) for path in paths}


def of_nixos() -> dict[str, str]:
    """What its module says of their order."""
    text = (TREE / "packaging/nixos/module.nix").read_text()
    units = {}
    for name, body in re.findall(r"systemd\.services\.(\S+) = (.*?)\n    };", text, re.S):
        order = re.findall(r"(after|before|wants|requires|conflicts) = \[ (.*) ];", body)
        lines = [f"{key.title()}={words}".replace('"', "") for key, words in order]
        lines += ["DefaultDependencies=no"] * ("DefaultDependencies = false" in body)
        units[f"{name}.service"] = "\n".join(["[Unit]", *lines, ONESHOT])
    return units


def of_extension() -> dict[str, str]:
    """That of the system extension."""
    _, text, _ = re.split(r"<<'EOF'\n|\nEOF\n", (TREE / "packaging/sysext").read_text())
    return {"sluice.service": harmless(text)}


BOOTS = [(ours, network) for network in NETWORKS]
BOOTS += [(of_nixos, "networkd"), (of_extension, "networkd")]


def verify(folder: Path, fstab: str, network: str, units: dict[str, str]) -> str:
    """What systemd says of the boot that has these units."""
    (folder / "fstab").write_text(ROOT + fstab)
    generated, own = folder / "generated", folder / "own"
    generated.mkdir()
    subprocess.run(
        [GENERATOR, generated, generated, generated],
        env={"SYSTEMD_FSTAB": str(folder / "fstab"), "SYSTEMD_LOG_LEVEL": "err"},
        check=True,
    )
    services = {**OTHERS, **NETWORKS[network]}
    place(own, {name: f"[Unit]\n{text}{ONESHOT}" for name, text in services.items()})
    place(own, units)
    if network == "networkd":
        enable_networkd(own)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "multi-user.target"],
        env={"PATH": os.environ["PATH"], "HOME": str(folder),
             "SYSTEMD_UNIT_PATH": f"{own}:{generated}:{SYSTEM}"},
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def complaints(said: str) -> list[str]:
    """About our units; the machine's own, or an fstab, may have faults without them."""
    return [line for line in said.splitlines() if "sluice" in line]


@pytest.mark.parametrize(("shipped", "network"), BOOTS)
@pytest.mark.parametrize("fstab", FSTABS)
def test_boot_has_no_cycle(tmp_path: Path, fstab: str, network: str, shipped) -> None:
    units = shipped()
    follows = {"sluice-follow.service"} if shipped != of_extension else set()
    assert set(units) == {"sluice.service"} | follows
    assert complaints(verify(tmp_path, FSTABS[fstab], network, units)) == []


@pytest.mark.parametrize(("line", "fstab", "network"), [
    ("[Service]\nPrivateTmp=yes", "var on NFS", "ifupdown"),
    ("[Service]\nPrivateTmp=yes", "tmp and var/tmp on NFS", "networkd"),
    ("[Service]\nStateDirectory=sluice", "var on CIFS", "ifupdown"),
    ("[Unit]\nAfter=local-fs.target", "var by its service", "networkd"),
    ("[Service]\nPrivateTemp=yes", "root alone", "ifupdown"),  # is unknown
])
def test_unit_with_a_fault_is_found(tmp_path: Path, line, fstab, network) -> None:
    units = ours()
    units["sluice.service"] += f"\n{line}\n"
    assert complaints(verify(tmp_path, FSTABS[fstab], network, units))


@pytest.mark.parametrize(("prefix", "waits"), [("/usr", False), ("/usr/local", True)])
def test_prefix_that_is_a_mount_is_waited_for(tmp_path: Path, prefix, waits) -> None:
    """The unit of a package waits for no mount, as /usr is there with the root."""
    subprocess.run(
        [TREE / "packaging/install", "module"],
        env={"PATH": os.environ["PATH"], "DESTDIR": str(tmp_path), "PREFIX": prefix},
        check=True,
        capture_output=True,
    )
    text = (tmp_path / "etc/systemd/system/sluice.service").read_text()
    assert (f"\nRequiresMountsFor={prefix}\n" in text) is waits
    units = {"sluice.service": harmless(text)}
    apart = "/dev/sda5 /usr/local ext4 defaults 0 2\n"
    assert complaints(verify(tmp_path, apart, "ifupdown", units)) == []
