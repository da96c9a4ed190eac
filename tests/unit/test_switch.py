# SPDX-License-Identifier: GPL-2.0-or-later
"""on, off and apply."""

from __future__ import annotations

import errno
import fcntl
import json

import pytest

from sluice import config, devices, rules, system
from sluice.cli import main
from sluice.config import HEADER
from sluice.errors import NetlinkError
from tests.unit._machine import Machine


def test_off_is_done_and_remembered(machine: Machine, capsys) -> None:
    assert main(["off", "tap0"]) == 0
    assert not machine.devices[0].on and machine.devices[1].on
    assert machine.reset_calls == [("tap0",)]
    assert config.PATH.read_text() == HEADER + "tap0 off\n"
    said = "".join(capsys.readouterr().out.split())  # a long path is wrapped
    assert said == f"tap0:offtap0:rememberedin{config.PATH}"


def test_pattern_reaches_all_that_match(machine: Machine) -> None:
    assert main(["on", "t*", "--stall-ms", "100", "--limit", "7"]) == 0
    assert [(one.stall_ms, one.limit) for one in machine.devices] == [(100, 7)] * 2
    assert config.PATH.read_text().endswith("t* on stall-ms=100 limit=7\n")
    number = config.PATH.read_text().count("\n")
    (rule,) = machine.rules
    assert rule.pattern == "t*" and rule.origin == f"{config.PATH}:{number}"[-127:]


def test_now_is_not_remembered(machine: Machine) -> None:
    assert main(["off", "--now", "tap0"]) == 0
    assert machine.set_calls and not config.PATH.exists()


def test_now_sets_what_was_given_and_no_more(machine: Machine) -> None:
    assert main(["on", "tap0", "--now", "--stall-ms", "100", "--target-us", "0"]) == 0
    assert machine.set_calls == [(2, {"on": 1, "stall_ms": 100, "target_us": 0})]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--now", "--host"], "--now excludes --host and --dry-run"),
        (["--now", "--dry-run"], "--now excludes --host and --dry-run"),
        (["--netns", "red"], "--netns needs --now"),
    ],
)
def test_options_that_exclude_each_other(machine, capsys, arguments, said) -> None:
    assert main(["off", "tap0", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not machine.set_calls and not config.PATH.exists()


def test_name_is_as_long_as_a_device_name(machine: Machine) -> None:
    assert main(["on", "a" * 15]) == 0
    assert main(["on", "a" * 16]) == 2
    assert main(["on", "a" * 16 + "*"]) == 2, "no device can match it"
    assert main(["on", "a" * 15 + "*"]) == 0


@pytest.mark.parametrize(("option", "least", "most"), [
    (f"--{name}", *span) for name, span in config.RANGES.items()
])
def test_settings_have_their_ranges(machine, option, least, most) -> None:
    for value, status in ((least - 1, 2), (least, 0), (most, 0), (most + 1, 2)):
        assert main(["on", "tap0", option, str(value)]) == status, value


def test_by_hand_needs_the_module(machine: Machine, capsys) -> None:
    machine.loaded = False
    assert main(["off", "tap0", "--now"]) == 1
    assert rules.NOT_LOADED in capsys.readouterr().err


def test_device_to_come_is_remembered(machine: Machine, capsys) -> None:
    assert main(["on", "vnet7"]) == 0
    assert "no such device now" in " ".join(capsys.readouterr().out.split())
    assert machine.rules[0].pattern == "vnet7" and "vnet7 on\n" in config.PATH.read_text()


def test_now_needs_a_device(machine: Machine, capsys) -> None:
    assert main(["on", "--now", "vnet7"]) == 1
    assert capsys.readouterr().err.startswith("sluice: vnet7: no such device")
    assert main(["on", "--now", "vnet*"]) == 1
    assert capsys.readouterr().err.startswith("sluice: vnet*: nothing matches")


def test_noqueue_is_said_in_one_line(machine: Machine, capsys) -> None:
    assert main(["on", "--now", "tun0"]) == 0
    assert capsys.readouterr().out == (
        "tun0: on, noqueue: nothing to stop; attach a qdisc: --qdisc fq_codel\n"
    )
    assert not machine.qdisc_calls


def test_qdisc_replaces_noqueue_only(machine: Machine, capsys) -> None:
    assert main(["on", "tap0", "tun0", "--qdisc", "fq_codel"]) == 0
    assert machine.qdisc_calls == [(3, 1, "fq_codel")]
    assert "tun0: on, served\n" in capsys.readouterr().out
    assert "tun0 on qdisc=fq_codel\n" in config.PATH.read_text()


@pytest.mark.parametrize("arguments", [["off", "tap0"], ["apply"], ["forget", "tap0"]])
def test_last_who_writes_is_last_who_loads(machine, monkeypatch, arguments) -> None:
    """The files stay locked until the module has their rules."""
    config.PATH.write_text("tap0 on\n")
    held = []

    def set_rules(rules: object, reset: object) -> None:
        with open(config.LOCK) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(True)

    monkeypatch.setattr("sluice.system.set_rules", set_rules)
    assert main(arguments) == 0
    assert held == [True]


def test_without_the_module_it_is_only_remembered(machine: Machine, capsys) -> None:
    machine.loaded = False
    assert main(["off", "tap0"]) == 1
    assert capsys.readouterr().err == (
        "sluice: module: not loaded; see: sluice doctor; "
        f"{config.PATH} was changed\n"
    )
    assert "tap0 off\n" in config.PATH.read_text()


def test_refusal_of_the_kernel_is_one_line(machine: Machine, capsys) -> None:
    machine.refuses = {2: errno.EPERM}
    assert main(["off", "--now", "tap0"]) == 4
    said = capsys.readouterr().err
    assert said == "sluice: tap0: Operation not permitted; run it as root\n"


def test_refused_device_does_not_stop_the_others(machine: Machine, capsys) -> None:
    machine.refuses = {2: errno.EINVAL}
    assert main(["off", "--now", "t*"]) == 1
    said = capsys.readouterr()
    assert said.err == "sluice: tap0: Invalid argument; see: sluice doctor\n"
    assert said.out.startswith("tun0: off\n") and "tap0" not in said.out


def test_kernel_without_the_qdisc(machine: Machine, capsys, monkeypatch) -> None:
    def attach_qdisc(*_: object) -> None:
        raise NetlinkError(errno.ENOENT)

    monkeypatch.setattr("sluice.system.attach_qdisc", attach_qdisc)
    assert main(["on", "--now", "tun0", "--qdisc", "cake"]) == 1
    said = capsys.readouterr().err
    assert said == "sluice: tun0: no qdisc cake in this kernel; run: modprobe sch_cake\n"


def test_file_that_cannot_be_written_is_one_line(machine, capsys, monkeypatch) -> None:
    monkeypatch.setattr(config, "PATH", config.PATH.parent / "none" / "conf")
    assert main(["off", "tap0"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "no such file or directory" in said
    assert not machine.set_calls


def test_vanishing_device_does_not_stop_the_others(machine: Machine, capsys) -> None:
    machine.refuses = {2: errno.ENODEV}
    assert main(["on", "--now", "t*"]) == 1
    assert "tap0: vanished meanwhile\n" in capsys.readouterr().out
    assert machine.set_calls == [(3, {"on": 1})]


def test_device_that_vanishes_after_it_was_set(machine, capsys, monkeypatch) -> None:
    def set_device(ifindex: int, values: object) -> None:
        machine.remove(ifindex)

    monkeypatch.setattr("sluice.system.set_device", set_device)
    assert main(["on", "--now", "tap0"]) == 1
    assert "tap0: vanished meanwhile\n" in capsys.readouterr().out


def test_apply_loads_the_rules_and_attaches_their_qdiscs(machine, capsys) -> None:
    config.PATH.write_text("t* on stall-ms=9\ntun0 on qdisc=cake\n")
    assert main(["apply"]) == 0
    assert [one.stall_ms for one in machine.devices] == [9, 250]
    assert machine.qdisc_calls == [(3, 1, "cake")]
    assert capsys.readouterr().out == (
        "tap0: on, served\ntun0: on, served\n2 rules loaded\n"
    )


def test_apply_takes_back_what_was_set_by_hand(machine: Machine) -> None:
    assert main(["off", "--now", "t*"]) == 0
    config.PATH.write_text("vnet* off\n")
    assert main(["apply", "tun0"]) == 0
    assert [one.on for one in machine.devices] == [False, True]
    assert machine.devices[0].by_hand == ("on",)
    assert main(["apply"]) == 0
    assert [one.on for one in machine.devices] == [True, True]


def test_apply_keeps_what_was_set_by_hand_if_asked(machine: Machine, capsys) -> None:
    """As udev and sluice.service run it: rules for all but those set by hand."""
    assert main(["off", "--now", "tap0"]) == 0
    config.PATH.write_text("t* on stall-ms=9\ntun0 off\n")
    capsys.readouterr()
    assert main(["apply", "--keep", "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("tap0: stays off, by hand tun0: would be off, is on; by ")
    assert main(["apply", "--keep"]) == 0
    assert [one.on for one in machine.devices] == [False, False]
    assert [one.by_hand for one in machine.devices] == [("on",), ()]
    assert machine.devices[0].stall_ms == 9
    assert main(["apply", "--keep", "tap0"]) == 0
    assert not machine.devices[0].on


def test_by_hand_outlives_rules_of_others(machine: Machine) -> None:
    assert main(["off", "--now", "tap0"]) == 0
    assert main(["on", "tun0"]) == 0
    assert not machine.devices[0].on


def test_apply_needs_the_module(machine: Machine, capsys) -> None:
    machine.loaded = False
    config.PATH.write_text("tap0 off\n")
    assert main(["apply", "--", "tap0"]) == 1
    said = capsys.readouterr().err
    assert said == "sluice: module: not loaded; see: sluice doctor\n"


@pytest.mark.parametrize("arguments", ["apply", "off tun0", "forget tun0", "on tap0"])
def test_a_wrong_line_changes_nothing(machine: Machine, capsys, arguments) -> None:
    text = "tap0 of\ntun0 off\n"
    config.PATH.write_text(text)
    assert main(arguments.split()) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"sluice: {config.PATH}:1: on or off is missing")
    assert said.endswith("; nothing was changed, see: sluice config check\n")
    assert not machine.reset_calls and config.PATH.read_text() == text


@pytest.mark.parametrize(("code", "status"), [(errno.EPERM, 4), (errno.EINVAL, 1)])
def test_refused_rules_leave_the_file(machine, capsys, code, status) -> None:
    machine.rules_refused = code
    config.PATH.write_text("tun0 off\n")
    assert main(["off", "tap0"]) == status
    assert capsys.readouterr().err.startswith("sluice: rules: ")
    assert config.PATH.read_text() == "tun0 off\n"
    assert [p.name for p in config.PATH.parent.glob(".sluice*")] == []


def test_dry_run_shows_and_changes_nothing(
    machine: Machine, capsys, monkeypatch, tmp_path
) -> None:
    config.PATH.write_text("t* on\n")
    assert main(["off", "tap0", "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("tap0: would be off, is on; by ") and "tap0 off" in said
    assert said.count("would be off") == 1 and "tap0: would be remembered in " in said
    assert main(["off", "tap0", "--dry-run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["dry_run"] and answer["remembered"] == ["tap0"]
    assert [one["name"] for one in answer["devices"]] == ["tap0"]
    config.PATH.write_text("tap0 on\n")
    assert main(["forget", "tap0", "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("tap0: would be on, is on; by no rule: defaults")
    monkeypatch.setattr(system, "read_parameters", lambda: {"default_on": "N"})
    monkeypatch.setattr(config, "LOCK", tmp_path / "missing/lock")  # it takes none
    assert main(["forget", "tap0", "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("tap0: would be off, is on; by no rule: defaults")
    config.PATH.write_text("t* on\n")
    assert main(["apply", "--dry-run"]) == 0
    assert capsys.readouterr().out.endswith("1 rule would be loaded\n")
    assert main(["forget", "t*", "--dry-run"]) == 0
    assert not machine.reset_calls and config.PATH.read_text() == "t* on\n"


def test_follow_serves_every_device_and_prints_text(machine: Machine, capsys) -> None:
    for words in (["tap0"], ["--dry-run"], ["--json"]):
        assert main(["apply", "--follow", *words]) == 2
        assert "--follow excludes" in capsys.readouterr().err
    assert not machine.reset_calls


def test_apply_to_a_name_that_matches_nothing_changes_nothing(
    machine: Machine, capsys
) -> None:
    config.PATH.write_text("t* on\n")
    for words in (["zz*"], ["zz*", "--dry-run"]):
        assert main(["apply", *words]) == 1
        said = capsys.readouterr()
        assert not said.out
        assert said.err == "sluice: zz*: nothing matches; see: sluice status\n"
    assert main(["apply", ""]) == 2
    assert "a name is empty" in capsys.readouterr().err
    assert not machine.reset_calls
    assert main(["apply", "tap*"]) == 0
    assert machine.reset_calls == [("tap*",)]


def test_help_has_the_defaults(capsys) -> None:
    assert main(["on", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name in config.RANGES:
        _, _, after = said.partition(f"--{name} ")
        text, _, _ = after.partition("<=x<=")
        assert f"[without a rule: {devices.DEFAULTS[name]}]" in text


def test_forget_removes_the_rule(machine: Machine, capsys) -> None:
    config.PATH.write_text("# head\nt* on\ntap0 off\n")
    assert main(["apply"]) == 0
    assert not machine.devices[0].on
    assert main(["forget", "tap0"]) == 0
    assert config.PATH.read_text() == "# head\nt* on\n"
    assert machine.devices[0].on
    capsys.readouterr()
    assert main(["forget", "tap0"]) == 1
    assert "tap0: no such rule in " in capsys.readouterr().err
    assert main(["forget", "t*", "tap1"]) == 1
    assert "tap1: no such rule in " in capsys.readouterr().err


def test_rule_of_the_folder_is_not_forgotten(machine: Machine, capsys) -> None:
    config.FOLDER.mkdir()
    (config.FOLDER / "a.conf").write_text("tap0 off\n")
    assert main(["forget", "tap0"]) == 1
    assert "a.conf:1; edit that file" in capsys.readouterr().err


def test_host_alone(machine: Machine) -> None:
    machine.namespaces = {"": 1, "red": 2}
    assert main(["off", "vnet*", "--host"]) == 0
    assert config.PATH.read_text().endswith("vnet* off netns=host\n")
    assert machine.rules[0].netns == "host"


def test_by_hand_in_one_namespace(machine: Machine) -> None:
    machine.namespaces = {"": 1, "red": 2}
    assert main(["off", "tap0", "--now", "--netns", "red"]) == 0
    assert machine.set_calls == [(2, {"on": 0})]
    assert main(["off", "tap0", "--now"]) == 0
    assert len(machine.set_calls) == 3, "one for each namespace"


def test_config_check_and_show(machine: Machine, capsys) -> None:
    config.PATH.write_text("tap0 off\nt* on\n")
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == "2 rules, no error\n"
    assert main(["config", "show"]) == 0
    assert capsys.readouterr().out.count(" not loaded") == 2
    assert main(["apply"]) == 0
    capsys.readouterr()
    assert main(["config", "show", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {one["module"] for one in answer["rules"]} == {"loaded"}
    config.PATH.write_text("tap0 off\ntap1\n\ntap2 on x=1\n")
    assert main(["config", "check"]) == 1
    assert capsys.readouterr().err.count("\n") == 2


def test_drift_is_found(machine: Machine) -> None:
    config.PATH.write_text("tap0 off\nt* on\n")
    whole = config.read_all()
    loaded = [rules.to_module(entry) for entry in whole.entries]
    assert rules.drift(whole, loaded) == []
    assert rules.drift(whole, loaded[1:]) == [
        f"not loaded: tap0 ({whole.entries[0].origin})"
    ]
    assert rules.drift(whole, loaded[::-1]) == ["their order differs"]


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
    assert (machine.devices[0].on, machine.devices[0].stall_ms) == (True, 100)


def test_module_that_is_unloaded_meanwhile(machine, capsys, monkeypatch) -> None:
    def set_device(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr("sluice.system.set_device", set_device)
    assert main(["off", "--now", "tap0"]) == 1
    assert capsys.readouterr().err == f"sluice: {rules.NOT_LOADED}\n"


def test_missing_qdisc_is_blamed_only_for_a_qdisc(machine: Machine, capsys) -> None:
    machine.refuses = {3: errno.ENOENT}
    assert main(["on", "--now", "tun0", "--qdisc", "cake"]) == 1
    said = capsys.readouterr().err
    assert said == "sluice: tun0: No such file or directory; see: sluice doctor\n"
    assert not machine.qdisc_calls, "attached to a device that could not be set"


def test_off_attaches_no_qdisc_and_on_only_where_none_is(machine: Machine) -> None:
    assert main(["off", "--now", "t*"]) == 0
    assert main(["on", "--now", "t*", "--qdisc", "fq"]) == 0
    assert machine.qdisc_calls == [(3, 1, "fq")]


def test_dry_run_without_the_module(machine: Machine, capsys) -> None:
    machine.loaded = False
    assert main(["off", "tap0", "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("tap0: would be off, is stock; by ")
    assert not config.PATH.exists()


def test_rule_of_a_device_that_vanishes_is_no_error(machine, capsys, monkeypatch) -> None:
    def attach_wanted(_: object) -> dict[object, str]:
        machine.remove(2)
        return {}

    monkeypatch.setattr("sluice.switch.attach_wanted", attach_wanted)
    assert main(["off", "tap0"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("tap0: vanished meanwhile\n") and not said.err


WITH_NAMES = ["status", "watch", "apply", "on --now", "off --now"]


@pytest.mark.parametrize("word", ["a/b", "tap%d", "x" * 16, "x" * 16 + "*", ".", "br:1"])
@pytest.mark.parametrize("command", WITH_NAMES)
def test_word_that_no_device_can_match_is_wrong_usage(machine, capsys, command, word):
    """Not "no such device", which may still come."""
    assert main([*command.split(), "--", word]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "not a device name or pattern" in said or "longer than a device" in said


@pytest.mark.parametrize("name", ["a b", "a/b", "#b", "\t"])
@pytest.mark.parametrize("command", ["on", "off", "forget"])
def test_what_is_no_name_is_refused(machine, capsys, command: str, name: str) -> None:
    assert main([command, name]) == 2
    assert "is not a device name or pattern" in " ".join(capsys.readouterr().err.split())
    assert not machine.reset_calls and not config.PATH.exists()


def test_on_in_the_host_alone(machine: Machine) -> None:
    assert main(["on", "vnet*", "--host"]) == 0
    assert (machine.rules[0].netns, machine.rules[0].on) == ("host", True)
    assert main(["on", "vnet*"]) == 0
    assert machine.rules[0].netns == "all"


def test_outcome_names_the_namespace(machine: Machine, capsys) -> None:
    machine.namespaces = {"": 1, "red": 2}
    assert main(["off", "--now", "tap0"]) == 0
    assert capsys.readouterr().out == "tap0: off\ntap0 (netns red): off\n"


def test_forget_as_json(machine: Machine, capsys) -> None:
    config.PATH.write_text("tap0 off\nvnet* off\n")
    for dry_run in (True, False):
        more = ["--dry-run"] if dry_run else []
        assert main(["forget", "tap0", "vnet*", "--json", *more]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["forgotten"] == ["tap0", "vnet*"]
        assert answer["dry_run"] is dry_run
        assert [one["name"] for one in answer["devices"]] == ["tap0"]
    assert not machine.rules and config.PATH.read_text() == ""


def test_forget_says_so_and_suggests_similar_names(machine: Machine, capsys) -> None:
    config.PATH.write_text("vnet0 off\n")
    assert main(["forget", "vnet1"]) == 1
    assert capsys.readouterr().err.endswith("; did you mean vnet0?\n")
    assert main(["forget", "x"]) == 1
    assert capsys.readouterr().err.endswith("; see: sluice config show\n")
    assert main(["forget", "vnet0", "--dry-run"]) == 0
    assert capsys.readouterr().out == "vnet0: would be forgotten\n"
    assert main(["forget", "vnet0"]) == 0
    assert capsys.readouterr().out == "vnet0: forgotten\n"


def test_apply_attaches_no_qdisc_to_a_device_that_is_off(machine: Machine) -> None:
    config.PATH.write_text("tun0 off qdisc=cake\n")
    assert main(["apply"]) == 0
    assert not machine.qdisc_calls and not machine.devices[1].on
