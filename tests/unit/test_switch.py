# SPDX-License-Identifier: GPL-2.0-or-later
"""on, off, forget and apply, and rules on their way to the module."""

from __future__ import annotations

import errno
import fcntl
import json
from collections.abc import Iterator

import pytest

from sluice import config, rules, system
from sluice.cli import main
from sluice.config import HEADER
from sluice.errors import Denied, NetlinkError, SluiceError
from tests.unit._machine import Machine, raising


def test_off_is_done_and_remembered(machine: Machine, run) -> None:
    answer = json.loads(run("off tap0 --json").out)
    assert answer["remembered"] == ["tap0"] and answer["devices"][0]["done"] is True
    machine.reset_calls.clear()
    config.PATH.unlink()
    said = "".join(run("off tap0").out.split())  # a long path is wrapped
    assert said == f"tap0:offtap0:rememberedin{config.PATH}"
    assert not machine.devices[0].on and machine.devices[1].on
    assert machine.reset_calls == [("tap0",)]
    assert config.PATH.read_text() == HEADER + "tap0 off\n"


def test_pattern_reaches_all_that_match(machine: Machine) -> None:
    assert main(["on", "t*", "--stall-ms", "100", "--limit", "7"]) == 0
    assert [(one.stall_ms, one.limit) for one in machine.devices] == [(100, 7)] * 2
    assert config.PATH.read_text().endswith("t* on stall-ms=100 limit=7\n")
    number = config.PATH.read_text().count("\n")
    (rule,) = machine.rules
    assert rule.pattern == "t*" and rule.origin == f"{config.PATH}:{number}"[-127:]


def test_now_sets_what_was_given_and_no_more(machine: Machine) -> None:
    assert main(["on", "tap0", "--now", "--stall-ms", "100", "--target-us", "0"]) == 0
    assert machine.set_calls == [(2, {"on": 1, "stall_ms": 100, "target_us": 0})]
    assert not config.PATH.exists()


LOADED = "module: not loaded; see: sluice doctor"


@pytest.mark.parametrize(("words", "how", "status", "text"), [
    ("off tap0 --now", {"loaded": False}, 1, LOADED),
    ("apply -- tap0", {"loaded": False}, 1, LOADED),
    ("on --now vnet7", {}, 1, "vnet7: no such device; see: sluice status"),
    ("on --now vnet*", {}, 1, "vnet*: nothing matches; see: sluice status"),
    ("apply zz*", {}, 1, "zz*: nothing matches; see: sluice status"),
    ("apply zz* --dry-run", {}, 1, "zz*: nothing matches; see: sluice status"),
    ("off --now t*", {"refuses": {2: errno.EPERM}}, 4,
     "tap0: Operation not permitted; run it as root"),
    ("off --now t*", {"refuses": {2: errno.EINVAL}}, 1,
     "tap0: Invalid argument; see: sluice doctor"),
    ("on --now tun0 --qdisc cake", {"refuses": {3: errno.ENOENT}}, 1,
     "tun0: No such file or directory; see: sluice doctor"),
    ("on --now tun0 --qdisc cake", {"no_qdisc": True}, 1,
     "tun0: no qdisc cake in this kernel; run: modprobe sch_cake"),
    ("apply", {"no_qdisc": True}, 1,
     "tun0: no qdisc cake in this kernel; run: modprobe sch_cake"),
    ("off --now tap0", {"unloaded": True}, 1, LOADED),
])
def test_refusal_is_one_line(
    machine: Machine, run, monkeypatch, words, how, status, text
) -> None:
    for name, value in how.items():
        setattr(machine, name, value)
    if "unloaded" in how:
        monkeypatch.setattr(system, "set_device", raising(LookupError()))
    if "no_qdisc" in how:
        refused = NetlinkError(errno.ENOENT)
        monkeypatch.setattr(system, "attach_qdisc", raising(refused))
    config.PATH.write_text("tun0 on qdisc=cake\n")
    said = run(words, status)
    assert said.err == f"sluice: {text}\n"
    assert ("tun0: off\n" in said.out) is (status == 1 and "off --now t*" in words)
    assert not machine.qdisc_calls and (words == "apply") == bool(machine.reset_calls)


@pytest.mark.parametrize(("words", "said"), [
    *((f"off tap0 --now {option}", "--now excludes --host and --dry-run")
      for option in ("--host", "--dry-run")),
    ("off tap0 --netns red", "--netns needs --now"),
    *((f"apply --follow {word}", "--follow excludes")
      for word in ("tap0", "--dry-run", "--json")),
])
def test_options_that_exclude_each_other(machine, run, words, said) -> None:
    assert said in " ".join(run(words, 2).err.split())
    assert not machine.set_calls + machine.reset_calls and not config.PATH.exists()


@pytest.mark.parametrize(("option", "least", "most"), [
    (f"--{name}", *span) for name, span in config.RANGES.items()
])
def test_settings_have_their_ranges(machine, option, least, most) -> None:
    for value, status in ((least - 1, 2), (least, 0), (most, 0), (most + 1, 2)):
        assert main(["on", "tap0", option, str(value)]) == status, value


def test_device_to_come_is_remembered(machine: Machine, run) -> None:
    assert "no such device now" in " ".join(run("on vnet7").out.split())
    assert machine.rules[0].pattern == "vnet7" and "vnet7 on\n" in config.PATH.read_text()


def test_qdisc_replaces_noqueue_only(machine: Machine, run) -> None:
    assert run("on --now tun0").out == (
        "tun0: on, noqueue: nothing to stop; attach a qdisc: --qdisc fq_codel\n"
    )
    assert main(["off", "--now", "t*"]) == 0
    config.PATH.write_text("tun0 off qdisc=cake\n")
    assert main(["apply"]) == 0
    assert not machine.qdisc_calls, "it is off"
    assert "tun0: on, served\n" in run("on tap0 tun0 --qdisc fq_codel").out
    assert machine.qdisc_calls == [(3, 1, "fq_codel")]
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


def test_without_the_module_it_is_only_remembered(machine: Machine, run) -> None:
    machine.loaded = False
    assert run("off tap0", 1).err == (
        "sluice: module: not loaded; see: sluice doctor; "
        f"{config.PATH} was changed\n"
    )
    assert "tap0 off\n" in config.PATH.read_text()


def test_device_that_vanishes_does_not_stop_the_others(
    machine, run, monkeypatch
) -> None:
    machine.refuses = {2: errno.ENODEV}
    assert "tap0: vanished meanwhile\n" in run("on --now t*", 1).out
    assert machine.set_calls == [(3, {"on": 1})]
    remove = lambda ifindex, _: machine.remove(ifindex)  # noqa: E731
    monkeypatch.setattr(system, "set_device", remove)
    assert "tap0: vanished meanwhile\n" in run("on --now tap0", 1).out


def test_apply_loads_the_rules_and_attaches_their_qdiscs(machine, run) -> None:
    config.PATH.write_text("t* on stall-ms=9\ntun0 on qdisc=cake\n")
    assert run("apply").out == "tap0: on, served\ntun0: on, served\n2 rules loaded\n"
    assert [one.stall_ms for one in machine.devices] == [9, 250]
    assert machine.qdisc_calls == [(3, 1, "cake")]


def test_apply_takes_back_what_was_set_by_hand(machine: Machine) -> None:
    assert main(["off", "--now", "t*"]) == 0
    assert main(["on", "vnet0"]) == 0
    assert not machine.devices[0].on, "rules of others"
    config.PATH.write_text("vnet* off\n")
    assert main(["apply", "tun0"]) == 0
    assert [one.on for one in machine.devices] == [False, True]
    assert machine.devices[0].by_hand == ("on",)
    assert main(["apply"]) == 0
    assert [one.on for one in machine.devices] == [True, True]


def test_apply_keeps_what_was_set_by_hand_if_asked(machine: Machine, run) -> None:
    """As udev and sluice.service run it: rules for all but those set by hand."""
    run("off --now tap0")
    config.PATH.write_text("t* on stall-ms=9\ntun0 off\n")
    said = " ".join(run("apply --keep --dry-run").out.split())
    assert said.startswith("tap0: stays off, by hand tun0: would be off, is on; by ")
    assert main(["apply", "--keep"]) == 0
    assert [one.on for one in machine.devices] == [False, False]
    assert [one.by_hand for one in machine.devices] == [("on",), ()]
    assert machine.devices[0].stall_ms == 9
    assert main(["apply", "--keep", "tap0"]) == 0
    assert not machine.devices[0].on


@pytest.mark.parametrize("arguments", ["apply", "off tun0", "forget tun0", "on tap0"])
def test_a_wrong_line_changes_nothing(machine: Machine, run, arguments) -> None:
    text = "tap0 of\ntun0 off\n"
    config.PATH.write_text(text)
    said = run(arguments, 1).err
    assert said.startswith(f"sluice: {config.PATH}:1: on or off is missing")
    assert said.endswith("; nothing was changed, see: sluice config check\n")
    assert not machine.reset_calls and config.PATH.read_text() == text


@pytest.mark.parametrize(("code", "status"), [(errno.EPERM, 4), (errno.EINVAL, 1)])
def test_refused_rules_leave_the_file(machine, run, code, status) -> None:
    machine.rules_refused = code
    config.PATH.write_text("tun0 off\n")
    assert run("off tap0", status).err.startswith("sluice: rules: ")
    assert config.PATH.read_text() == "tun0 off\n"
    assert [p.name for p in config.PATH.parent.glob(".sluice*")] == []


def test_dry_run_shows_and_changes_nothing(
    machine: Machine, run, monkeypatch, tmp_path
) -> None:
    config.PATH.write_text("t* on\n")
    said = " ".join(run("off tap0 --dry-run").out.split())
    assert said.startswith("tap0: would be off, is on; by ") and "tap0 off" in said
    assert said.count("would be off") == 1 and "tap0: would be remembered in " in said
    answer = json.loads(run("off tap0 --dry-run --json").out)
    assert answer["dry_run"] and answer["remembered"] == ["tap0"]
    assert [one["name"] for one in answer["devices"]] == ["tap0"]
    config.PATH.write_text("tap0 on\n")
    said = " ".join(run("forget tap0 --dry-run").out.split())
    assert said.startswith("tap0: would be on, is on; by no rule: defaults")
    monkeypatch.setattr(system, "read_parameters", lambda: {"default_on": "N"})
    monkeypatch.setattr(config, "LOCK", tmp_path / "missing/lock")  # it takes none
    said = " ".join(run("forget tap0 --dry-run").out.split())
    assert said.startswith("tap0: would be off, is on; by no rule: defaults")
    config.PATH.write_text("t* on\n")
    assert run("apply --dry-run").out.endswith("1 rule would be loaded\n")
    run("forget t* --dry-run")
    machine.loaded = False
    assert run("off tap0 --dry-run").out.startswith("tap0: would be off, is stock; by")
    assert not machine.reset_calls and config.PATH.read_text() == "t* on\n"


def test_forget_removes_the_rule(machine: Machine, run) -> None:
    config.PATH.write_text("tap0 off\nvnet* off\n")
    for more in ("--dry-run", ""):
        answer = json.loads(run(f"forget tap0 vnet* --json {more}").out)
        assert answer["forgotten"] == ["tap0", "vnet*"]
        assert answer["dry_run"] is bool(more)
        assert [one["name"] for one in answer["devices"]] == ["tap0"]
    assert not machine.rules and config.PATH.read_text() == ""
    config.PATH.write_text("# head\nt* on\ntap0 off\n")
    run("apply")
    assert not machine.devices[0].on
    run("forget tap0")
    assert config.PATH.read_text() == "# head\nt* on\n"
    assert machine.devices[0].on
    assert "tap0: no such rule in " in run("forget tap0", 1).err
    assert "tap1: no such rule in " in run("forget t* tap1", 1).err
    config.FOLDER.mkdir()
    (config.FOLDER / "a.conf").write_text("tap0 off\n")
    assert "a.conf:1; edit that file" in run("forget tap0", 1).err


def test_by_hand_in_one_namespace_and_by_rule_in_the_host(machine, run) -> None:
    machine.namespaces = {"": 1, "red": 2}
    run("off tap0 --now --netns red")
    assert machine.set_calls == [(2, {"on": 0})]
    assert run("off tap0 --now").out == "tap0: off\ntap0 (netns red): off\n"
    assert len(machine.set_calls) == 3, "one for each namespace"
    for verb in ("off", "on"):
        assert main([verb, "vnet*", "--host"]) == 0
        assert config.PATH.read_text().endswith(f"vnet* {verb} netns=host\n")
        assert (machine.rules[0].netns, machine.rules[0].on) == ("host", verb == "on")
    assert main(["on", "vnet*"]) == 0
    assert machine.rules[0].netns == "all"


WITH_NAMES = "status watch apply on on+--now off off+--now forget".split()


@pytest.mark.parametrize("command", WITH_NAMES)
@pytest.mark.parametrize(
    "word", ["a/b", "tap%d", "x" * 16, "x" * 16 + "*", ".", "br:1", "a b", "\t", ""]
)
def test_word_that_no_device_can_match_is_wrong_usage(machine, run, command, word):
    """Not "no such device", which may still come."""
    said = " ".join(run([*command.split("+"), "--", word], 2).err.split())
    reasons = ("not a device name or pattern", "longer than a device", "a name is empty")
    assert any(reason in said for reason in reasons)
    assert not machine.reset_calls and not config.PATH.exists()


def test_forget_says_so_and_suggests_similar_names(machine: Machine, run) -> None:
    config.PATH.write_text("vnet0 off\n")
    assert run("forget vnet1", 1).err.endswith("; did you mean vnet0?\n")
    assert run("forget x", 1).err.endswith("; see: sluice config show\n")
    assert run("forget vnet0 --dry-run").out == "vnet0: would be forgotten\n"
    assert run("forget vnet0").out == "vnet0: forgotten\n"


# Rules on their way to the module


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Time passes only in sleep(); how long each was."""
    slept: list[float] = []
    monkeypatch.setattr(rules.time, "monotonic", lambda: 100.0 + sum(slept))
    monkeypatch.setattr(rules.time, "sleep", slept.append)
    return slept


def refuse(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int) -> list[int]:
    """set_rules() fails so often; the calls."""
    calls: list[int] = []

    def set_rules(*_: object) -> None:
        calls.append(1)
        if len(calls) <= times:
            raise error

    monkeypatch.setattr(system, "set_rules", set_rules)
    return calls


def test_module_that_comes_is_waited_for(machine, monkeypatch, clock) -> None:
    calls = refuse(monkeypatch, LookupError(), times=3)
    assert rules.load(config.Rules())
    assert len(calls) == 4 and len(clock) == 3
    refuse(monkeypatch, LookupError(), times=1_000_000)
    assert not rules.load(config.Rules())
    assert rules.COMING_SECONDS <= sum(clock) < rules.COMING_SECONDS + 2
    machine.loaded, waited = False, len(clock)
    assert not rules.load(config.Rules()) and len(clock) == waited


@pytest.mark.parametrize(
    ("reason", "where"),
    [("Operation not permitted", "as root"), ("not in this namespace", "on the host")],
)
def test_denial_says_who_may(machine, monkeypatch, reason: str, where: str) -> None:
    refuse(monkeypatch, NetlinkError(errno.EPERM, reason), times=1)
    with pytest.raises(Denied, match=f"^rules: {reason}; run it {where}$"):
        rules.load(config.Rules())


@pytest.mark.parametrize(
    ("text", "others"), [("x y\n", ""), ("x y\nx z\nx z\n", " (and 2 more)")]
)
def test_other_wrong_lines_are_counted(machine, text: str, others: str) -> None:
    config.PATH.write_text(text)
    with pytest.raises(SluiceError) as refused:
        rules.check(config.read_all())
    assert f"after the pattern{others}; nothing was changed" in str(refused.value)
    rules.check(config.Rules())


def test_module_gets_patterns_as_it_reads_them(machine: Machine) -> None:
    config.PATH.write_text("a\\b off\n")
    assert rules.load(config.read_all(), ["c\\d"])
    assert [one.pattern for one in machine.rules] == ["a[\\]b"]
    assert machine.reset_calls == [("c[\\]d",)]


def test_rule_that_is_in_no_file_any_more_is_found(machine: Machine) -> None:
    config.PATH.write_text("tap0 off\ntap1 off\n")
    assert rules.load(config.read_all())
    loaded = list(machine.rules)
    config.PATH.write_text("tap0 off\n")
    whole = config.read_all()
    assert rules.drift(whole, loaded) == [
        f"no longer in a file: tap1 ({loaded[1].origin})"
    ]
    assert rules.drift(whole, loaded[:1]) == []
    assert rules.drift(whole, []) == [f"not loaded: tap0 ({loaded[0].origin})"]
    config.PATH.write_text("tap1 off\ntap0 off\n")
    turned = [rules.to_module(entry) for entry in config.read_all().entries]
    assert rules.drift(config.read_all(), turned[::-1]) == ["their order differs"]
