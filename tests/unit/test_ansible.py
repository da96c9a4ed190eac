# SPDX-License-Identifier: GPL-2.0-or-later
"""The example for a fleet is as ansible-lint's strictest profile wants it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sluice import config, distributions

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


def test_usual_variables_change_nothing() -> None:
    text = (EXAMPLE.parent / "roles/sluice/defaults/main.yml").read_text()
    usual = yaml.safe_load(text)
    assert usual["sluice_rules"] == [] and usual["sluice_default_on"] is False
    examples = re.findall(r'^#   - "(.*)"$', text, re.M)
    lines = config.parse("\n".join(examples))
    assert lines and not config.wrongs(lines)


# A kernel, what dpkg-query says of the package it came by, and the package that brings
# the headers of the next one.
KERNELS = (
    ("6.12.48+deb13-amd64", "", "linux-headers-amd64"),
    ("6.1.0-38-cloud-amd64", "", "linux-headers-cloud-amd64"),
    ("6.8.0-79-generic", "", "linux-headers-generic"),
    ("6.2.16-20-pve", "", "pve-headers"),
    ("6.8.12-4-pve", "", "proxmox-default-headers"),
    ("6.12.95+deb12-amd64",
     "linux-image-amd64 6.12.95-1~bpo12+1 linux-image-6.12.95+deb12-amd64 (= 6.12.95-1)",
     "linux-headers-amd64=6.12.95-1~bpo12+1"),
    ("6.1.0-57-amd64", "linux-image-amd64 6.1.192-3 linux-image-6.1.0-57-amd64 (= 6.1)",
     "linux-headers-amd64"),
    ("6.14.0-27-generic", "linux-image-generic-hwe-24.04 6.14.0-27.27~24.04.1 "
     "linux-image-6.14.0-27-generic, linux-firmware", "linux-headers-generic-hwe-24.04"),
    ("6.14.8-2-bpo12-pve", "proxmox-kernel-6.14 6.14.8-2~bpo12+1 "
     "proxmox-kernel-6.14.8-2-bpo12-pve-signed | proxmox-kernel-6.14.8-2-bpo12-pve",
     "proxmox-headers-6.14=6.14.8-2~bpo12+1"),
)


def play(folder: Path, tasks: list[object]) -> subprocess.CompletedProcess[str]:
    """Tasks with the role's defaults, on this machine; they change nothing."""
    defaults = str(EXAMPLE.parent / "roles/sluice/defaults/main.yml")
    whole = {"hosts": "localhost", "connection": "local", "gather_facts": False}
    whole |= {"vars_files": [defaults], "tasks": tasks}
    path = folder / "play.yml"
    path.write_text(json.dumps([whole]))
    return subprocess.run(
        [sys.executable, "-B", "-m", "ansible", "playbook", str(path)],
        cwd=folder,
        env={**os.environ, "ANSIBLE_HOME": str(folder)},
        capture_output=True,
        text=True,
    )


def test_headers_are_those_that_the_command_names(tmp_path: Path) -> None:
    debian = distributions.find(("debian",))
    assert debian is not None
    tasks: list[object] = []
    for kernel, said, following in KERNELS:
        wanted = distributions.headers_package(debian, kernel)
        lines = ["linux-image-other 1 linux-image-0.1-other", said]
        answer = {"stdout_lines": lines}
        tasks += [
            {"ansible.builtin.set_fact": {
                "kernel": kernel, "sluice_kernels": answer, "cacheable": True}},
            {"ansible.builtin.assert": {"that": [
                f"sluice_headers == '{wanted}'",
                f"sluice_next_headers == '{following}'",
            ]}},
        ]
    done = play(tmp_path, tasks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ok={2 * len(KERNELS)} " in done.stdout, done.stdout


RULES = "Rules that are lines, in a file that is read"
WRONG: list[dict[str, object]] = [
    {"sluice_rules": "tun* on"},  # it would be a line for each letter
    {"sluice_rules": ["tun* on\n* off"]},
    {"sluice_file": "50-ansible"},  # it would not be read
    {"sluice_file": "../sluice.conf"},
]
RIGHT: list[dict[str, object]] = [{}, {"sluice_rules": []}]


def test_variables_that_make_no_rules_are_refused(tmp_path: Path) -> None:
    (task,) = (
        task
        for path in EXAMPLE.parent.glob("roles/sluice/tasks/*.yml")
        for task in yaml.safe_load(path.read_text())
        if task["name"] == RULES
    )
    wrong = [{**task, "vars": one, "ignore_errors": True} for one in WRONG]
    done = play(tmp_path, [*wrong, *({**task, "vars": one} for one in RIGHT)])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ignored={len(WRONG)} " in done.stdout, done.stdout
