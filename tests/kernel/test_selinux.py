# SPDX-License-Identifier: GPL-2.0-or-later
"""With SELinux enforcing, the module is loaded at boot and nothing is denied to it.

The guest has Debian's policy. Its root is a disk image with a label on each file, mounted
without the overlay of the other guests, which has no labels.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lab.cache import cache_dir, cached, digest, digest_files
from lab.machines import build, vm
from lab.machines.chroot import must_run_in_root
from lab.machines.matrix import kernel_named
from lab.machines.roots import DISK_SIZE, MAKE_DISK, Root, ensure_root, make_disk

# Loaded by systemd-modules-load too, when the unit of this name is started.
OPEN_TUN = build.REPOSITORY / "tests" / "kernel" / "open_tun"
PACKAGES = ("auditd", "policycoreutils", "selinux-policy-default")
BOOT_SECONDS = 900
POLICY = "selinux=1 security=selinux enforcing=1 audit=1 audit_backlog_limit=8192"
# What a unit's own program runs as, and files without a label: so the lab's job, which
# writes to a share that has none, is not confined. What it does is still logged.
_NOT_CONFINED = ("initrc_t", "unlabeled_t")
_LOADER = (
    r"[Service]\nType=oneshot\nExecStart=/usr/lib/systemd/systemd-modules-load "
    rf"/etc/{OPEN_TUN.name}.conf\n"
)
_PREPARE = f"""
install -D -m 644 -t /usr/lib/modules/{{release}}/updates /mnt/*.ko
depmod {{release}}
echo sluice >/etc/modules-load.d/sluice.conf
echo {OPEN_TUN.name} >/etc/{OPEN_TUN.name}.conf
printf '{_LOADER}' >/etc/systemd/system/{OPEN_TUN.name}.service
printf 'SELINUX=enforcing\\nSELINUXTYPE=default\\n' >/etc/selinux/config
echo '{"".join(f"(typepermissive {name})" for name in _NOT_CONFINED)}' >/tmp/lab.cil
semodule --noreload --install /tmp/lab.cil
mkdir -p /out /sluice
touch /.init
setfiles -F -e /dev -e /mnt -e /proc -e /tmp \
    /etc/selinux/default/contexts/files/file_contexts /
"""
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
systemctl start {OPEN_TUN.name} 2>&1
dmesg | grep 'open_tun:'
denials after
"""
# A denial that names one of these may be the module's.
OURS = ("sluice", "tun", "modules-load", "modules_load", "modprobe", "kmod")


def _ensure_labelled(root: Root) -> Path:
    modules = [build.build_module(root, source) for source in (build.KMOD, OPEN_TUN)]
    key = digest(root.key, digest_files(modules), _PREPARE, *MAKE_DISK, DISK_SIZE)
    final = cache_dir() / "disks" / f"{root.kernel}-selinux-{key}"
    with cached(final) as work:
        if work:
            tree = replace(root, path=work / "tree")
            subprocess.run(["cp", "-a", root.path, tree.path], check=True)
            (work / "in").mkdir()
            for module in modules:
                shutil.copy(module, work / "in")
            script = _PREPARE.format(release=root.release)
            failure = f"kernel {root.kernel}: its files cannot be labelled"
            must_run_in_root(tree, work / "in", script, failure, "see the log")
            make_disk(tree, work / "root.ext4")
            shutil.rmtree(tree.path)
    return final / "root.ext4"


def test_module_is_loaded_at_boot_and_nothing_is_denied(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    if not pytestconfig.getoption("--every"):
        pytest.skip("needs a root of its own; make test-all has it")
    root = ensure_root(kernel_named("6.12"), PACKAGES)
    machine = vm.Machine(
        root,
        tmp_path,
        disk=_ensure_labelled(root),
        cmdline="lab.systemd lab.selinux",
        policy=POLICY,
    )
    job = {"kind": "command", "argv": ["sh", "-c", SCRIPT]}
    said: list[str] = []
    trouble = vm.run_job(machine, job, BOOT_SECONDS, said.append).trouble
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
