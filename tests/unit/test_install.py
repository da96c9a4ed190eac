# SPDX-License-Identifier: GPL-2.0-or-later
"""install and uninstall on a machine of recorded answers, with a script of ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice import config, install, packages, system
from sluice.distributions import Answers
from sluice.install import SOURCE

KERNEL = "CONFIG_MODULES=y\nCONFIG_DYNAMIC_FTRACE=y\nCONFIG_DYNAMIC_FTRACE_WITH_ARGS=y\n"
SCRIPT = Path(__file__).resolve().parents[2] / "packaging/install"
Script = Callable[[str], None]


@pytest.fixture
def script(monkeypatch, tmp_path) -> Script:
    """On a Debian with headers and DKMS: writes the tree's packaging/install."""
    answers = {
        "is_root": True,
        "has_headers": True,
        "read_dkms": system.NO_ANSWER,
        "read_distribution": ("debian",),
        "read_kernel_config": KERNEL,
        "read_package": ("", ""),
        "read_secure_boot": False,
        "read_signed_only": "",
        "read_signing_key": ("", None),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(system, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr("platform.version", lambda: "#1 SMP")
    monkeypatch.setattr(packages, "read_answers", lambda *_: Answers())
    monkeypatch.setattr(config, "PATH", tmp_path / "sluice.conf")
    monkeypatch.setattr(install, "TREE", tmp_path)
    path = tmp_path / "packaging/install"
    path.parent.mkdir()

    def write(text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    write('echo "+ this" >&2')
    return write


@pytest.mark.parametrize(("text", "words", "status", "out", "err"), [
    ("echo '+ dkms add' >&2; echo 'A link'; echo '+ dkms install' >&2", "install",
     0, "installed; see: sluice status\n", "+ dkms add\nA link\n+ dkms install\n"),
    ("echo 'not built' >&2; exit 1", "install", 1, "", "not built\n"),
    ("echo 'not built' >&2; exit 3", "install", 3, "", "not built\n"),
    ("echo \"+ $*\" >&2", "install --dry-run", 0, "nothing was done\n",
     "+ --dry-run\n"),
    ("echo \"+ $*\" >&2", "uninstall --dry-run", 0, "nothing was done\n",
     "+ --remove --dry-run\n"),
])
def test_script_is_shown_and_its_status_taken(
    script: Script, run, monkeypatch, text, words, status, out, err
) -> None:
    script(text)
    monkeypatch.setattr(system, "is_root", lambda: "--dry-run" not in words)
    assert run(words, status) == (out, err)
    if "--dry-run" not in words:
        answer = json.loads(run([words, "--json"], status).out)
        shown = ["dkms add", "dkms install"] if status == 0 else []
        assert (answer["commands"], answer["verdict"]) == (shown, (out or err).strip())


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_interrupted_script_takes_back_what_it_did(script, run, name: str) -> None:
    script(f"""
        trap 'echo "+ rm it" >&2; exit 130' TERM
        sleep 0.2
        kill -{name} $PPID
        while :; do sleep 0.1; done
    """)
    assert "+ rm it\n" in run("install", 130).err


def test_uninstall_says_what_is_left(script: Script, run, monkeypatch) -> None:
    assert run("uninstall").out == "uninstalled\n"
    script("exit 0")
    config.PATH.write_text("tun* on\n")
    said = " ".join(run("uninstall").out.split())
    assert said == f"nothing is installed from a tree; {config.PATH} is kept"
    monkeypatch.setattr(install, "TREE", config.PATH.parent / "none")
    for verb in ("install", "uninstall"):
        assert "not a source tree" in run([verb], 1).err


@pytest.mark.parametrize(("answers", "status", "text"), [
    ({"is_root": False}, 4, "install: changes the system; run it as root"),
    ({"has_headers": False}, 3, "its headers are missing; run: apt install linux-"),
    ({"read_dkms": None}, 3, "dkms: not installed; run: apt install dkms"),
    ({"read_kernel_config": "CONFIG_MODULES=y\n"}, 3, "lacks CONFIG_DYNAMIC_FTRACE"),
    ({"read_secure_boot": True, "read_signed_only": "lockdown"}, 3,
     "requires signed modules, and DKMS has no key"),
    ({"read_signed_only": "lockdown"}, 3, "lockdown requires signed modules"),
    ({"read_secure_boot": True, "read_signed_only": "lockdown",
      "read_signing_key": ("/k", False), "has_tool": True}, 3,
     "/k is not enrolled; run: mokutil --import /k"),
    ({"read_package": ("sluice", "apt remove sluice")}, 1, "apt remove sluice"),
])
def test_refusals_are_one_line_and_change_nothing(
    script: Script, run, monkeypatch, answers, status: int, text: str
) -> None:
    for name, answer in answers.items():
        monkeypatch.setattr(system, name, lambda *_, answer=answer: answer)
    said = run("install", status)
    assert said.out == "" and said.err.count("\n") == 1 and text in said.err


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_what_a_package_owns_is_left_to_it(script, run, monkeypatch, verb) -> None:
    def read_package(path: str) -> tuple[str, str]:
        owned = path == f"{SOURCE}/Kbuild"
        return ("sluice-dkms", "apt remove sluice-dkms") if owned else ("", "")

    monkeypatch.setattr(system, "read_package", read_package)
    said = run([verb], 1).err
    assert said.endswith("is the package sluice-dkms's; use: apt remove sluice-dkms\n")
    assert "+ " not in said


def fake(folder: Path, **scripts: str) -> str:
    """Programs in a folder, for a PATH."""
    folder.mkdir(exist_ok=True)
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(("word", "status"), [
    ("start", 0), ("restart", 0), ("stop", 0), ("reload", 1), ("status", 3), ("x", 2),
])
def test_init_script_fails_no_boot(tmp_path, word: str, status: int) -> None:
    """Where systemd does not run, and the module cannot be loaded."""
    fake(tmp_path, module="exit 1")
    text = (SCRIPT.parents[1] / "debian/sluice-dkms.sluice.init").read_text()
    text = text.replace("/usr/lib/sluice", str(tmp_path))
    text = text.replace("/sys/module/sluice", str(tmp_path / "none"))
    done = subprocess.run(["sh", "-c", text, "sluice", word], capture_output=True)
    assert done.returncode == status, done.stderr


def load(script: Path, programs: str) -> tuple[int, str]:
    """`module load` with these programs: its status, and what it says."""
    path = {"PATH": f"{programs}:/usr/bin:/bin"}
    command = ["sh", str(script), "load"]
    done = subprocess.run(command, env=path, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_load_that_fails_says_what_the_kernel_said(tmp_path) -> None:
    error = "modprobe: ERROR: could not insert 'sluice': Invalid argument"
    new = "[ 9.0] sluice: `1s' invalid for parameter `stall_ms'"
    path = fake(
        tmp_path,
        modinfo="echo abc",
        modprobe=f'echo "{error}" >&2; cat {tmp_path}/new >>{tmp_path}/log; exit 1',
        dmesg=f"cat {tmp_path}/log",
    )
    (tmp_path / "new").write_text(f"{new}\n")
    (tmp_path / "log").write_text("[ 1.0] sluice: an older line\n")
    status, said = load(SCRIPT.parent / "module", path)
    assert status == 1
    assert said.endswith(
        "sluice: module: not loaded (Invalid argument: `1s' invalid for parameter "
        "`stall_ms'); devices behave as without sluice; see: sluice doctor\n"
    )


@pytest.mark.parametrize("command", ["exit 1", None])
def test_module_is_loaded_whatever_the_command_says(tmp_path, command) -> None:
    """A wrong line in its file, or no command at all."""
    there = tmp_path / "sluice"
    path = fake(tmp_path, modinfo="echo abc", modprobe="")
    if command:
        fake(tmp_path, sluice=command)
    script = tmp_path / "module"
    lines = (SCRIPT.parent / "module").read_text().splitlines()
    at = lines.index("command=/usr/sbin/sluice")  # or this would run the machine's own
    lines[at] = f"command={there}"
    script.write_text("\n".join(lines))
    status, said = load(script, path)
    assert status == 0, said
    assert "sluice: module: loaded\n" in said
    assert (f"+ {there} apply --keep\n" in said) is bool(command)


def test_owner_in_the_words_of_a_package_manager() -> None:
    for manager, answer, package in (
        ("dpkg", "sluice: /usr/share/sluice/cli.py\n", "sluice"),
        ("rpm", "sluice", "sluice"),
        ("pacman", "/usr/lib/x.py is owned by sluice 0.1.0-1\n", "sluice"),
        ("pacman", "", ""),
    ):
        assert system.parse_package(manager, answer) == package
