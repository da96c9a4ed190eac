# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result says of the machine it was measured on."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from lab.cache import cache_dir
from lab.failure import UsageError
from lab.machines.roots import Root
from lab.machines.vm import REPOSITORY, Machine
from lab.report import results
from lab.report.results import HostLoad


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    """One that has booted and measured."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.argv", ["lab", "bench", "--json", "/root/x/run.json"])
    qemu = tmp_path / "qemu"
    qemu.write_text("#!/bin/sh\necho 'QEMU emulator version 10.0 (Debian)'; echo more\n")
    qemu.chmod(0o755)
    output = tmp_path / "boot"
    output.mkdir()
    command = [qemu, f"root={cache_dir()}/roots/x", f"path={REPOSITORY},readonly=on"]
    command += [f"file:{output}/console.log"]
    (output / "qemu.json").write_text(json.dumps([str(part) for part in command]))
    (output / "result.json").write_text(json.dumps({"boot_id": "b00t"}))
    root = Root("6.12", Path("/root"), "6.12.1", "linux-image 6.12.1", "key")
    return Machine(root, output, vcpus=3, memory_mb=512)


def test_result_names_the_machine_and_none_of_its_paths(machine, tmp_path) -> None:
    load = HostLoad()
    facts = results.read_provenance(machine, load)
    assert facts.qemu_command[1:] == [
        "root=CACHE/roots/x", "path=REPOSITORY,readonly=on", "file:OUT/console.log"
    ]
    said = json.dumps({**asdict(facts), "qemu_command": facts.qemu_command[1:]})
    assert str(tmp_path) not in said and str(REPOSITORY) not in said
    assert (facts.kernel, facts.kernel_package) == ("6.12", "linux-image 6.12.1")
    assert f"model name\t: {facts.host_cpu}\n" in Path("/proc/cpuinfo").read_text()
    assert facts.host_cpus == os.cpu_count()
    assert (facts.vcpus, facts.memory_mb, facts.boot_id) == (3, 512, "b00t")
    assert facts.qemu_version == "QEMU emulator version 10.0 (Debian)"
    assert facts.command_line == "python3 -m lab bench --json run.json".split()
    assert (facts.module_commit, facts.module_dirty) == (load.commit, load.dirty)


def test_commit_of_the_module_and_changes_that_are_in_none(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(results, "REPOSITORY", tmp_path)
    assert HostLoad().commit == "unknown"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y"]
    (tmp_path / "kmod").mkdir()
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *command], check=True)
    load = HostLoad()
    assert re.fullmatch("[0-9a-f]{40}", load.commit) and not load.dirty
    (tmp_path / "kmod" / "queue.c").touch()
    (tmp_path / "README.md").touch()
    assert HostLoad().dirty


@pytest.mark.parametrize(
    ("seconds", "busy", "ours", "percent"),
    [(10, 12, 8, 20.0), (10, 8, 8, 0.0), (10, 7, 8, 0.0), (1, 2, 0, 100.0)],
)
def test_load_of_others_is_what_we_did_not_use(
    monkeypatch, seconds, busy, ours, percent
) -> None:
    monkeypatch.setattr(results.os, "cpu_count", lambda: 2)
    reads = iter([(100.0, 30.0), (100.0 + seconds, 30.0 + busy - ours)])
    monkeypatch.setattr(HostLoad, "_read", staticmethod(lambda: next(reads)))
    assert HostLoad().read_others_percent() == percent


def test_file_that_cannot_be_read_is_named(tmp_path) -> None:
    with pytest.raises(UsageError, match="none.json: cannot be read .No such file"):
        results.read_run(tmp_path / "none.json")
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG\xff")
    with pytest.raises(UsageError, match="a.png: cannot be read .*name a result"):
        results.read_run(picture)


@pytest.mark.parametrize(
    ("times", "kept"),
    [([], []), ([1.0, 2.0], [1.0, 2.0]), (list(range(9)), [0, 4, 8])],
)
def test_thinned_list_keeps_both_ends(times, kept) -> None:
    assert results.thin(times, 3) == kept
