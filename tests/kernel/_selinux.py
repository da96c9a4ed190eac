# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that enforces Debian's SELinux policy and has the module loaded at boot.

Its root is a disk image with a label on each file, mounted without the overlay of the
other guests, which has no labels.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from lab.cache import cache_dir, cached, digest, digest_files
from lab.machines import build, disk, vm
from lab.machines.chroot import must_run_in_root
from lab.machines.matrix import Kernel
from lab.machines.roots import Root, ensure_root

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


def _ensure_labelled(root: Root) -> Path:
    modules = [build.build_module(root, source) for source in (build.KMOD, OPEN_TUN)]
    key = digest(root.key, digest_files(modules), _PREPARE, *disk.COMMAND, disk.SIZE)
    final = cache_dir() / "disks" / f"{root.kernel}-selinux-{key}"
    with cached(final, f"disk-{root.kernel}-selinux") as work:
        if work:
            tree = replace(root, path=work / "tree")
            subprocess.run(["cp", "-a", root.path, tree.path], check=True)
            (work / "in").mkdir()
            for module in modules:
                shutil.copy(module, work / "in")
            script = _PREPARE.format(release=root.release)
            failure = f"kernel {root.kernel}: its files cannot be labelled"
            must_run_in_root(tree, work / "in", script, failure, "see the log")
            disk.make(tree, work / "root.ext4")
            shutil.rmtree(tree.path)
    return final / "root.ext4"


def run(kernel: Kernel, script: str, output: Path) -> tuple[list[str], list[str]]:
    """What a shell script says in that guest, once it is up; and the kernel's trouble."""
    root = ensure_root(kernel, PACKAGES)
    said: list[str] = []
    machine = vm.Machine(
        root,
        output,
        disk=_ensure_labelled(root),
        cmdline="lab.systemd lab.selinux",
        policy=POLICY,
    )
    job = {"kind": "command", "argv": ["sh", "-c", script]}
    result = vm.run_job(machine, job, BOOT_SECONDS, said.append)
    return said, result.trouble
