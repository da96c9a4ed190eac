# SPDX-License-Identifier: GPL-2.0-or-later
"""The example for a fleet is as ansible-lint's strictest profile wants it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sluice import distributions

EXAMPLE = Path(__file__).resolve().parents[2] / "packaging/ansible/sluice.yml"


def lint(path: Path) -> subprocess.CompletedProcess[str]:
    """In the example's own folder, with the tools beside this python."""
    tools = Path(sys.executable).parent
    return subprocess.run(
        [sys.executable, "-B", "-m", "ansiblelint", "--offline", "--nocolor",
         "--profile", "production", str(path)],
        cwd=path.parent,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name", ["sluice.yml", "remove.yml"])
def test_lint_is_silent(name: str) -> None:
    done = lint(EXAMPLE.with_name(name))
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint_notices_a_command_that_is_not_a_change(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE.parent, tmp_path, dirs_exist_ok=True)
    tasks = tmp_path / "roles/sluice/tasks/main.yml"
    tasks.write_text(tasks.read_text().replace("  changed_when: false\n", ""))
    done = lint(tmp_path / "sluice.yml")
    assert done.returncode != 0 and "no-changed-when" in done.stdout, done.stdout


# A kernel, and the package that brings the headers of the next one.
KERNELS = {
    "6.12.48+deb13-amd64": "linux-headers-amd64",
    "6.1.0-38-cloud-amd64": "linux-headers-cloud-amd64",
    "6.1.0-0.deb11.25-amd64": "linux-headers-amd64",
    "6.8.0-79-generic": "linux-headers-generic",
    "6.2.16-20-pve": "pve-headers",
    "6.5.13-1-pve": "proxmox-default-headers",
    "6.8.12-4-pve": "proxmox-default-headers",
}


def test_headers_are_those_that_the_command_names(tmp_path: Path) -> None:
    debian = distributions.find(("debian",))
    assert debian is not None
    tasks = []
    for kernel, following in KERNELS.items():
        wanted = distributions.headers_package(debian, kernel)
        assert distributions.following_package(debian, kernel) == following
        tasks += [
            {"ansible.builtin.set_fact": {"kernel": kernel, "cacheable": True}},
            {"ansible.builtin.assert": {"that": [
                f"sluice_headers == '{wanted}'",
                f"sluice_next_headers == '{following}'",
            ]}},
        ]
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars_files": [str(EXAMPLE.parent / "roles/sluice/defaults/main.yml")],
        "tasks": tasks,
    }
    path = tmp_path / "headers.yml"
    path.write_text(json.dumps([play]))
    done = subprocess.run(
        [sys.executable, "-B", "-m", "ansible", "playbook", str(path)],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ok={2 * len(KERNELS)} " in done.stdout, done.stdout
