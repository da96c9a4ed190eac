# SPDX-License-Identifier: GPL-2.0-or-later
"""install and uninstall on a machine of recorded answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from sluice import VERSION, config, install, system
from sluice.cli import main
from sluice.install import (
    AT_BOOT,
    COMMAND,
    DKMS_TREE,
    KERNEL_HOOKS,
    SOURCE,
    UDEV_RULE,
)

KERNEL = "CONFIG_MODULES=y\nCONFIG_DYNAMIC_FTRACE=y\nCONFIG_DYNAMIC_FTRACE_WITH_ARGS=y\n"
ADD = f"dkms add -m sluice -v {VERSION}"
REMOVE = f"dkms remove -m sluice -v {VERSION} --all"


@dataclass
class Target:
    """What is on it, and what was done to it."""

    fails: str = ""  # the command that begins so fails
    interrupted: str = ""
    ran: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    loaded: str = ""

    def run(self, command: tuple[str, ...], stdin: str = "") -> tuple[int, str]:
        text = " ".join(command)
        self.ran.append(text)
        if self.interrupted and text.startswith(self.interrupted):
            raise KeyboardInterrupt
        if self.fails and text.startswith(self.fails):
            return 7, "what it said"
        self._change(command, stdin)
        return 0, ""

    def _change(self, command: tuple[str, ...], stdin: str) -> None:
        if command[0] == "rm":
            gone = [name for name in self.files if name.startswith(command[-1])]
            for name in gone:
                del self.files[name]
        elif command[0] in ("cp", "install", "ln"):
            self.files[command[-1]] = stdin
        elif command[:2] == ("dkms", "add"):
            self.files[f"{DKMS_TREE}/{VERSION}"] = ""
        elif command[:2] == ("dkms", "remove"):
            self.files.pop(f"{DKMS_TREE}/{VERSION}", None)
        elif command[0] == "modprobe":
            self.loaded = "" if "-r" in command else VERSION


@pytest.fixture
def target(monkeypatch, tmp_path) -> Target:
    """A Debian with headers and DKMS."""
    machine = Target()
    answers = {
        "run": machine.run,
        "exists": lambda path: path in machine.files,
        "is_root": lambda: True,
        "has_headers": lambda release: True,
        "read_dkms": lambda: "",  # too busy to answer in time
        "read_distribution": lambda: ("debian",),
        "read_kernel_config": lambda release: KERNEL,
        "read_module_version": lambda: machine.loaded,
        "read_package": lambda path: ("", ""),
        "read_secure_boot": lambda: False,
        "read_signed_only": lambda: "",
        "read_signing_key": lambda: ("", None),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(system, name, answer)
    monkeypatch.setattr("platform.version", lambda: "#1 SMP")
    monkeypatch.setattr(config, "PATH", tmp_path / "sluice.conf")
    return machine


def test_install_shows_each_command_before_it_runs(target: Target, capsys) -> None:
    assert main(["install"]) == 0
    said = capsys.readouterr()
    assert said.out == "installed; see: sluice status\n"
    shown = [line[2:] for line in said.err.splitlines() if line.startswith("+ ")]
    assert shown == target.ran
    assert [word for word in shown if "dkms " in word][0] == ADD
    assert target.loaded and target.files[AT_BOOT] == "sluice\n"
    rule = target.files[UDEV_RULE]
    assert f"{COMMAND} apply" in rule and "/usr/sbin/sluice" not in rule


def test_dkms_builds_for_new_kernels_where_its_failure_is_harmless(target) -> None:
    """On Debian a failed build would fail apt: there a hook of ours asks."""
    assert main(["install"]) == 0
    assert "AUTOINSTALL" not in target.files[f"{SOURCE}/dkms.conf"]
    for hook in KERNEL_HOOKS:
        assert target.files[hook].endswith("exit 0\n")
    assert 'AUTOINSTALL="yes"' in install.dkms_conf(debian=False)
    steps = install.install_steps("6", debian=False, rule="")
    assert not any(KERNEL_HOOKS[0] in step.command for step in steps)


def test_uninstall_takes_all_away(target: Target, capsys) -> None:
    main(["install"])
    target.ran.clear()
    capsys.readouterr()
    assert main(["uninstall"]) == 0
    assert (target.files, target.loaded) == ({}, "")
    assert capsys.readouterr().out == "uninstalled\n"
    assert main(["uninstall"]) == 0
    assert capsys.readouterr().out == "nothing is installed from a tree\n"


@pytest.mark.parametrize(
    "command",
    ["cp", "install -m", ADD, "dkms build", "dkms install", "modprobe sluice",
     f"install -D -m 644 /proc/self/fd/0 {AT_BOOT}", "ln", "install -D -m 755",
     f"install -D -m 644 /proc/self/fd/0 {UDEV_RULE}"],
)
def test_failure_leaves_nothing(target: Target, capsys, command: str) -> None:
    target.fails = command
    assert main(["install"]) == 1
    assert (target.files, target.loaded) == ({}, "")
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"sluice: {' '.join(command.split()[:2])}")
    assert last.endswith("status 7 (see above), all is undone; see: sluice doctor")


def test_compiler_is_heard_before_its_log_is_gone(target, capsys, monkeypatch) -> None:
    target.fails = "dkms build"
    monkeypatch.setattr(system, "read_text", lambda path: "queue.c:1: error: odd\n")
    assert main(["install"]) == 1
    before, removed, _ = capsys.readouterr().err.partition(f"+ {REMOVE}")
    assert removed and "queue.c:1: error: odd\n" in before


def test_interrupt_leaves_nothing(target: Target, capsys) -> None:
    target.interrupted = "dkms build"
    assert main(["install"]) == 130
    assert (target.files, target.loaded) == ({}, "")


def test_what_cannot_be_undone_is_named(target: Target, capsys, monkeypatch) -> None:
    run = target.run

    def stubborn(command: tuple[str, ...], stdin: str = "") -> tuple[int, str]:
        if command[:2] in (("dkms", "build"), ("dkms", "remove")):
            return 3, ""
        return run(command, stdin)

    monkeypatch.setattr(system, "run", stubborn)
    assert main(["install"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"left to do: {REMOVE};" in last


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_dry_run_does_nothing(target: Target, capsys, monkeypatch, verb: str) -> None:
    monkeypatch.setattr(system, "is_root", lambda: False)
    target.files = {} if verb == "install" else {UDEV_RULE: ""}
    assert main([verb, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert said.out == "nothing was done\n" and "+ " in said.err
    assert not target.ran


@pytest.mark.parametrize(
    ("answers", "status", "text"),
    [
        ({"is_root": False}, 1, "install: changes the system; run it as root"),
        ({"has_headers": False}, 3, "its headers are missing; run: apt install linux-"),
        ({"read_dkms": None}, 3, "dkms: not installed; run: apt install dkms"),
        ({"read_kernel_config": "CONFIG_MODULES=y\n"}, 3, "lacks CONFIG_DYNAMIC_FTRACE"),
        ({"read_secure_boot": True}, 3, "secure boot: on, and DKMS has no key"),
        (
            {"read_secure_boot": True, "read_signing_key": ("/k", False)},
            3,
            "/k is not enrolled; run: mokutil --import /k",
        ),
        ({"read_package": ("sluice", "apt remove sluice")}, 1, "apt remove sluice"),
    ],
)
def test_refusals_are_one_line_and_change_nothing(
    target: Target, capsys, monkeypatch, answers, status: int, text: str
) -> None:
    for name, answer in answers.items():
        monkeypatch.setattr(system, name, lambda *_, answer=answer: answer)
    assert main(["install"]) == status
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and text in said.err
    assert not target.ran


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_what_a_package_owns_is_left_to_it(target, capsys, monkeypatch, verb) -> None:
    def read_package(path: str) -> tuple[str, str]:
        owned = path == f"{SOURCE}/Kbuild"
        return ("sluice-dkms", "apt remove sluice-dkms") if owned else ("", "")

    target.files[SOURCE] = ""
    monkeypatch.setattr(system, "read_package", read_package)
    assert main([verb]) == 1
    said = capsys.readouterr().err
    assert said.endswith("is the package sluice-dkms's; use: apt remove sluice-dkms\n")
    assert not target.ran and target.files


def test_without_a_source_tree_it_says_so(target, capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(install, "TREE", tmp_path)
    for verb in ("install", "uninstall"):
        assert main([verb]) == 1
        assert "no source tree" in capsys.readouterr().err


@pytest.mark.parametrize("path", [SOURCE, DKMS_TREE, COMMAND, UDEV_RULE])
def test_what_is_there_is_not_overwritten(target: Target, capsys, path: str) -> None:
    target.files[path] = ""
    assert main(["install"]) == 1
    said = capsys.readouterr().err
    assert said == f"sluice: {path}: is there already; run: sluice uninstall\n"
    assert not target.ran


def test_remembered_devices_are_switched(target: Target) -> None:
    target.files[str(config.PATH)] = ""
    assert main(["install"]) == 0
    assert target.ran[-1] == f"{COMMAND} apply"


def test_uninstall_goes_on_after_a_failure(target: Target, capsys) -> None:
    main(["install"])
    target.fails = "modprobe -r"
    capsys.readouterr()
    assert main(["uninstall"]) == 1
    said = capsys.readouterr()
    assert said.out == "not all is gone\n" and "modprobe -r sluice: failed" in said.err
    assert not target.files


def test_json(target: Target, capsys) -> None:
    assert main(["install", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {one["status"] for one in answer["commands"]} == {0}
    assert main(["uninstall", "--dry-run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {one["status"] for one in answer["commands"]} == {None}


@pytest.mark.parametrize(
    ("manager", "answer", "package"),
    [
        ("dpkg", "sluice: /usr/share/sluice/cli.py\n", "sluice"),
        ("rpm", "sluice", "sluice"),
        ("pacman", "/usr/lib/x.py is owned by sluice 0.1.0-1\n", "sluice"),
        ("pacman", "", ""),
    ],
)
def test_owner_in_the_words_of_a_package_manager(manager, answer, package) -> None:
    assert system.parse_package(manager, answer) == package
