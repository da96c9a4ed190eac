# SPDX-License-Identifier: GPL-2.0-or-later
"""on, off and apply."""

from __future__ import annotations

import errno
import fcntl
import json

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from sluice import config
from sluice.cli import main
from sluice.config import HEADER
from tests.unit._machine import Machine


def test_off_is_done_and_remembered(machine: Machine, capsys) -> None:
    assert main(["off", "tap0"]) == 0
    assert machine.set_calls == [(2, {"on": 0})]
    assert config.PATH.read_text() == HEADER + "tap0 off\n"
    said = "".join(capsys.readouterr().out.split())  # a long path is wrapped
    assert said == f"tap0:offtap0:rememberedin{config.PATH}"


def test_pattern_reaches_all_that_match(machine: Machine) -> None:
    assert main(["on", "t*", "--stall-ms", "100", "--limit", "7"]) == 0
    values = {"on": 1, "stall_ms": 100, "limit": 7}
    assert machine.set_calls == [(2, values), (3, values)]
    assert config.PATH.read_text().endswith("t* on stall-ms=100 limit=7\n")


def test_now_is_not_remembered(machine: Machine) -> None:
    assert main(["off", "--now", "tap0"]) == 0
    assert machine.set_calls and not config.PATH.exists()


def test_device_to_come_is_remembered(machine: Machine, capsys) -> None:
    assert main(["on", "vnet7"]) == 0
    assert "there is none now" in capsys.readouterr().out
    assert not machine.set_calls and "vnet7 on\n" in config.PATH.read_text()


def test_now_needs_a_device(machine: Machine, capsys) -> None:
    assert main(["on", "--now", "vnet7"]) == 1
    assert capsys.readouterr().err.startswith("sluice: vnet7: no such device")
    assert main(["on", "--now", "vnet*"]) == 1
    assert capsys.readouterr().err.startswith("sluice: vnet*: nothing matches")


def test_noqueue_is_said_in_one_line(machine: Machine, capsys) -> None:
    assert main(["on", "--now", "tun0"]) == 0
    assert capsys.readouterr().out == (
        "tun0: on, noqueue: nothing to stop; attach one: --qdisc fq_codel\n"
    )
    assert not machine.qdisc_calls


def test_qdisc_replaces_noqueue_only(machine: Machine, capsys) -> None:
    assert main(["on", "tap0", "tun0", "--qdisc", "fq_codel"]) == 0
    assert machine.qdisc_calls == [(3, 1, "fq_codel")]
    assert "tun0: on, served\n" in capsys.readouterr().out
    assert "tun0 on qdisc=fq_codel\n" in config.PATH.read_text()


@pytest.mark.parametrize("arguments", [["off", "tap0"], ["apply"]])
def test_last_who_writes_is_last_who_switches(machine, monkeypatch, arguments) -> None:
    """The file stays locked until the device is switched."""
    config.PATH.write_text("tap0 on\n")
    held = []

    def set_device(ifindex: int, values: object) -> None:
        with open(config.LOCK) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(ifindex)

    monkeypatch.setattr("sluice.system.set_device", set_device)
    assert main(arguments) == 0
    assert held == [2]


def test_without_the_module_it_is_only_remembered(machine: Machine, capsys) -> None:
    machine.loaded = False
    assert main(["off", "tap0"]) == 1
    assert capsys.readouterr().err == (
        "sluice: module: not loaded; run: modprobe sluice; "
        f"it is remembered in {config.PATH}\n"
    )
    assert "tap0 off\n" in config.PATH.read_text()


def test_refusal_of_the_kernel_is_one_line(machine: Machine, capsys) -> None:
    machine.refuses = {2: errno.EPERM}
    assert main(["off", "--now", "tap0"]) == 1
    assert capsys.readouterr().err == "sluice: tap0: not permitted; run it as root\n"


def test_refused_device_does_not_stop_the_others(machine: Machine, capsys) -> None:
    machine.refuses = {2: errno.EINVAL}
    assert main(["off", "t*"]) == 1
    said = capsys.readouterr()
    assert said.err == "sluice: tap0: Invalid argument; see: sluice doctor\n"
    assert said.out.startswith("tun0: off\n") and "tap0" not in said.out


def test_kernel_without_the_qdisc(machine: Machine, capsys, monkeypatch) -> None:
    def attach_qdisc(*_: object) -> None:
        raise NetlinkError(errno.ENOENT)

    monkeypatch.setattr("sluice.system.attach_qdisc", attach_qdisc)
    assert main(["on", "--now", "tun0", "--qdisc", "cake"]) == 1
    said = capsys.readouterr().err
    assert said == "sluice: tun0: no qdisc cake; run: modprobe sch_cake\n"


def test_file_that_cannot_be_written_is_one_line(machine, capsys, monkeypatch) -> None:
    monkeypatch.setattr(config, "PATH", config.PATH.parent / "none" / "conf")
    assert main(["off", "tap0"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "no such file or directory" in said
    assert not machine.set_calls


def test_vanishing_device_does_not_stop_the_others(machine: Machine, capsys) -> None:
    machine.refuses = {2: errno.ENODEV}
    assert main(["on", "t*"]) == 0
    assert "tap0: vanished meanwhile\n" in capsys.readouterr().out
    assert machine.set_calls == [(3, {"on": 1})]
    assert main(["on", "--now", "tap0"]) == 1


def test_device_that_vanishes_after_it_was_set(machine, capsys, monkeypatch) -> None:
    def set_device(ifindex: int, values: object) -> None:
        machine.remove(ifindex)

    monkeypatch.setattr("sluice.system.set_device", set_device)
    assert main(["on", "tap0"]) == 0
    assert "tap0: vanished meanwhile\n" in capsys.readouterr().out


def test_apply_does_what_is_remembered(machine: Machine, capsys) -> None:
    config.PATH.write_text("t* on stall-ms=9\ntun0 on qdisc=cake\n")
    assert main(["apply"]) == 0
    assert machine.set_calls == [(2, {"on": 1, "stall_ms": 9}), (3, {"on": 1})]
    assert machine.qdisc_calls == [(3, 1, "cake")]
    assert capsys.readouterr().out == "tap0: on, served\ntun0: on, served\n"


def test_apply_to_one_device(machine: Machine) -> None:
    config.PATH.write_text("t* off\n")
    assert main(["apply", "tun0"]) == 0
    assert machine.set_calls == [(3, {"on": 0})]


@pytest.mark.parametrize("name", ["eth0", "tap0"])
def test_apply_without_a_line_asks_nobody(machine, monkeypatch, name: str) -> None:
    machine.loaded = False
    config.PATH.write_text("vnet* off\n")
    assert main(["apply", name]) == 0
    assert main(["apply", "gone0"]) == 0


def test_apply_with_a_line_needs_the_module(machine: Machine, capsys) -> None:
    machine.loaded = False
    config.PATH.write_text("tap0 off\n")
    assert main(["apply", "--", "tap0"]) == 1
    said = capsys.readouterr().err
    assert said == "sluice: module: not loaded; run: modprobe sluice\n"


def test_apply_names_wrong_lines_and_does_the_rest(machine: Machine, capsys) -> None:
    config.PATH.write_text("tap0 maybe\ntun0 off\n")
    assert main(["apply"]) == 1
    assert machine.set_calls == [(3, {"on": 0})]
    said = capsys.readouterr().err
    assert said.startswith(f"sluice: {config.PATH}:1: ") and said.count("\n") == 1


def test_json(machine: Machine, capsys) -> None:
    assert main(["on", "tap0", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["remembered"] == ["tap0"]
    assert answer["devices"][0]["done"] is True
    assert main(["apply", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["devices"][0]["name"] == "tap0"


def test_on_after_off_keeps_the_settings(machine: Machine) -> None:
    main(["on", "tap0", "--stall-ms", "100"])
    main(["off", "tap0"])
    main(["on", "tap0"])
    assert machine.set_calls[-1] == (2, {"on": 1, "stall_ms": 100})
