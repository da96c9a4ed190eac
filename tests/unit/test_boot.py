# SPDX-License-Identifier: GPL-2.0-or-later
"""What the next boot does: asked of the init system that runs, not of files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice import apply, doctor, monitor, system
from sluice.system import OPENRC, RUNIT, SYSTEMD, SYSVINIT
from tests.unit._machine import Machine
from tests.unit.test_doctor import FINE

UNIT = "etc/systemd/system/multi-user.target.wants/sluice.service"
LISTED = "etc/modules-load.d/sluice.conf"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(system, "ROOT_FOLDER", tmp_path)
    monkeypatch.setattr(system, "PROC", tmp_path / "proc")
    monkeypatch.setattr(system, "read_unit_state", lambda: "")
    return tmp_path


def place(root: Path, *names: str) -> None:
    """Files of a name; `name=text` has a text, `name/` is a folder."""
    for name in names:
        path, _, text = name.partition("=")
        target = root / path
        if path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text + "\n")


@pytest.mark.parametrize(("files", "init"), [
    (["run/systemd/system/", "proc/1/comm=systemd"], SYSTEMD),
    (["run/openrc/", "proc/1/comm=init"], OPENRC),
    (["run/runit/", "proc/1/comm=runit"], RUNIT),
    (["proc/1/comm=runit"], RUNIT),
    (["proc/1/comm=init", "lib/systemd/systemd", UNIT], SYSVINIT),  # MX
    (["proc/1/comm=bash"], ""),
    ([], ""),
])
def test_init_that_runs(root: Path, files: list[str], init: str) -> None:
    place(root, *files)
    assert system.read_init() == init


@pytest.mark.parametrize(("init", "state", "files", "loads"), [
    (SYSTEMD, "enabled", [], True),
    (SYSTEMD, "disabled", [UNIT], False),
    (SYSTEMD, "masked", [UNIT], False),
    (SYSTEMD, "enabled-runtime", [], False),
    (SYSTEMD, "", [UNIT], False),  # a link that leads nowhere
    (SYSTEMD, "disabled", [f"{LISTED}=sluice"], True),
    (SYSTEMD, "disabled", ["etc/modules=sluice"], False),  # is not read
    (SYSTEMD, "", [f"{LISTED}=# sluice"], False),
    (SYSTEMD, "", ["usr/lib/modules-load.d/x.conf=sluice"], True),
    (SYSTEMD, "", ["usr/lib/modules-load.d/x.conf=sluice",
                   "etc/modules-load.d/x.conf="], False),  # hidden
    (SYSVINIT, "enabled", [UNIT], False),  # Devuan, MX: the package's link
    (SYSVINIT, "", ["etc/modules=tun\nsluice stall_ms=9"], True),
    (SYSVINIT, "", ["etc/rcS.d/S12sluice"], True),
    (SYSVINIT, "", ["etc/rcS.d/K12sluice"], False),
    (OPENRC, "", [f"{LISTED}=sluice", "etc/runlevels/boot/modules"], True),
    (OPENRC, "", [f"{LISTED}=sluice"], False),
    (RUNIT, "", [f"{LISTED}=sluice"], True),
    (RUNIT, "", [UNIT], False),
    ("", "", [UNIT], False),
])
def test_module_is_loaded_at_the_next_boot(
    root: Path, monkeypatch, init: str, state: str, files: list[str], loads: bool
) -> None:
    monkeypatch.setattr(system, "read_unit_state", lambda: state)
    place(root, *files)
    assert system.loads_at_boot(init) is loads


@pytest.mark.parametrize(("init", "state", "files", "command"), [
    (SYSTEMD, "disabled", [], "systemctl enable sluice"),
    (SYSTEMD, "masked", [], "systemctl unmask sluice; systemctl enable sluice"),
    (SYSTEMD, "not-found", ["etc/modules-load.d/"],
     "echo sluice >/etc/modules-load.d/sluice.conf"),
    (SYSVINIT, "disabled", ["etc/init.d/sluice"], "update-rc.d sluice defaults"),
    (SYSVINIT, "disabled", ["etc/modules"], "echo sluice >>/etc/modules"),
    (OPENRC, "", ["etc/modules", "etc/runlevels/boot/modules"],
     "echo sluice >>/etc/modules"),
    (OPENRC, "", [], "mkdir -p /etc/modules-load.d; echo sluice "
     ">/etc/modules-load.d/sluice.conf; rc-update add modules boot"),
    (RUNIT, "disabled", ["etc/modules-load.d/"],
     "echo sluice >/etc/modules-load.d/sluice.conf"),
    ("", "disabled", [], "have this machine's init run at boot: modprobe sluice"),
])
def test_advice_is_for_the_init_that_runs(
    root: Path, monkeypatch, init: str, state: str, files: list[str], command: str
) -> None:
    monkeypatch.setattr(system, "read_unit_state", lambda: state)
    place(root, *files)
    assert system.load_at_boot_command(init) == command
    assert init == SYSTEMD or "systemctl" not in command


@pytest.mark.parametrize(("change", "said"), [
    ({}, True),
    ({"udev": True}, False),
    ({"init": SYSTEMD}, False),  # sluice.service loads them
    ({"rules": 0}, False),
    ({"container": "lxc"}, False),
])
def test_rules_that_nothing_loads_at_boot_are_a_note(change: dict, said: bool) -> None:
    facts = replace(FINE, **{"init": OPENRC, "udev": False, "rules": 2, **change})
    assert bool([*doctor.check_boot(facts)]) is said


def test_follow_waits_for_a_module_that_comes_later(
    machine: Machine, monkeypatch, run
) -> None:
    """sluice-follow starts at boot, the module is loaded by hand afterwards."""
    families = iter([0, 0, 0, 21])
    machine.loaded = False

    def read_family() -> int:
        family = next(families)
        machine.loaded = family > 0
        return family

    monkeypatch.setattr(monitor, "read_family", read_family)
    monkeypatch.setattr(monitor, "events", lambda _: iter(()))
    monkeypatch.setattr(apply, "WAIT_SECONDS", 0.0)
    said = run("apply --keep --follow")
    assert said.err == "module: not loaded; waiting for it\n"
    assert said.out.endswith("0 rules loaded\n") and machine.reset_calls == [()]
