# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of the rules: what they may have, and that none is lost."""

from __future__ import annotations

import errno
import glob
import json
import multiprocessing
import os
import pickle
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice import config, doctor, system
from sluice.cli import main
from sluice.config import Rule, format_rule, parse, parse_line, remembered, rule_for
from sluice.errors import Denied, SluiceError
from tests.unit._machine import Machine, raising

TREE = Path(__file__).resolve().parents[2]


def test_last_match_wins() -> None:
    lines = parse("tap* on\ntap0 off\n# tap0 on\nvnet[0-9] on stall-ms=5\n")
    assert rule_for("tap0", lines) == Rule("tap0", False)
    assert rule_for("tap1", lines) == Rule("tap*", True)
    assert rule_for("vnet3", lines) == Rule("vnet[0-9]", True, {"stall-ms": 5})
    assert rule_for("Tap1", lines) is None


@pytest.mark.parametrize(
    ("pattern", "values"), [("a?", (9, 0, 70, 1)), (f"[{'x' * 61}]", (1, 0, 0, 0)),
                            ("*", (60000, 95, 2**32 - 1, 100000))],
)
def test_rule_survives_its_own_format(pattern: str, values: tuple[int, ...]) -> None:
    rule = Rule(pattern, True, dict(zip(config.RANGES, values)), "cake", "host")
    assert parse_line(format_rule(rule)).rule == rule


@pytest.mark.parametrize(("text", "wrong"), [
    ("tap0", "on or off is missing after the pattern"),
    ("tap0 maybe", "on or off is missing after the pattern"),
    ("tap0 on colour=red", "option 'colour=red' is unknown"),
    ("tap0 off on", "option 'on' is unknown"),
    ("tap0 on limit", "option 'limit' is unknown"),
    ("tap0 on limit=x", "limit 'x' is not between 0 and 4294967295"),
    ("tap0 on limit=4294967296", "limit '4294967296' is not between"),
    (f"tap0 on limit={'9' * 20}", f"limit '{'9' * 20}' is not between"),
    *((f"tap0 on stall-ms={wrong}", f"stall-ms '{wrong}' is not between 1 and 60000")
      for wrong in ("", "0", "60001", "-1", "1e3")),
    ("tap0 on low-percent=96", "low-percent '96' is not between 0 and 95"),
    ("tap0 on target-us=100001", "target-us '100001' is not between 0 and 100000"),
    ("tap0 on netns=red", "netns 'red' is neither host nor all"),
    ("tap0 on netns", "option 'netns' is unknown"),
    ("tap0 on qdisc=x", "qdisc 'x' is not one of fq_codel, fq, cake, pfifo"),
    ("tap0 on qdisc", "option 'qdisc' is unknown"),
    (f"[{'x' * 62}] on", "the pattern is longer than 63 bytes"),
])
def test_wrong_line_is_named_with_its_reason_and_has_no_rule(text, wrong) -> None:
    (said,) = config.wrongs(parse(f"# x\n{text}\n"), Path("/c"))
    assert said.startswith(f"/c:2: {wrong}")
    assert rule_for("tap0", parse(text)) is None


@pytest.mark.parametrize(("word", "reason"), [
    ("", "a name is empty"),
    *((word, "the kernel refuses it") for word in (".", "..")),
    *((word, "no name has '/'") for word in ("a/b", "tap*/x")),
    *((word, "no name has ") for word in ("br0:1", "a b", "a\t*", "x\0")),
    *((word, "no name has '\\[") for word in ("tap[/:]", "[9-0]tap")),
    ("tap%d", "write \\*"),
    # The kernel takes this byte for a blank.
    *((word, "no name has the byte a0") for word in ("t\xe0p", "\xa0*")),
    *((word, "longer than a device name") for word in (
        "x" * 16, "x" * 16 + "*", "?*" * 16, "[a-z]" * 8 + "12345678", "\u2603" * 6,
    )),
])
def test_word_that_no_name_can_match_is_an_error(word: str, reason: str) -> None:
    assert re.search(reason, config.unmatchable(word))
    assert not any(map(config.unmatchable, ("*" * 30, "?" * 15, "[!/]x", "[/a]", "[")))
    assert config.wrong_pattern(word)
    if len(word.split()) == 1 and "\xa0" not in word:
        assert re.search(reason, parse_line(f"{word} off").wrong)


@pytest.mark.parametrize("letter", ["\ufeff", "\u200b", "\u00ad", "\u2003", "\u202e"])
def test_what_cannot_be_seen_is_an_error_in_a_rule(letter: str) -> None:
    """It comes along when text is copied; a name may have it, and can be shown."""
    word = f"tap{letter}*"
    assert config.unmatchable(word) == ""
    assert f"U+{ord(letter):04X}" in config.wrong_pattern(word)
    assert parse_line(f"{word} off").wrong
    assert main(["off", word]) == 2


@pytest.mark.parametrize("first", ["vnet*  off", "# head", "", "vnet* off\r"])
def test_byte_order_mark_is_no_part_of_a_pattern(machine, run, first) -> None:
    text = f"{first}\ntun0 on stall-ms=2000\n"
    config.PATH.write_bytes(b"\xef\xbb\xbf" + text.encode())
    rules = config.read_all()
    assert not rules.wrongs
    patterns = [one.rule.pattern for one in rules.entries]
    assert patterns == (["vnet*", "tun0"] if "vnet" in first else ["tun0"])
    assert main(["off", "tap0"]) == 0
    assert config.PATH.read_bytes() == text.replace("\r", "").encode() + b"tap0 off\n"
    config.PATH.write_bytes(b"tun0 on\n\xef\xbb\xbfvnet* off\n")  # two files in one
    assert "sluice.conf:2: " in run("config check", 1).err
    config.PATH.write_text("vnet* off\n", encoding="utf-16")
    run("config check", 1)


def test_rules_are_the_same_bytes_in_every_locale(tmp_path: Path) -> None:
    """Python decodes the names of devices by the locale; a file is UTF-8."""
    path = tmp_path / "conf"
    path.write_bytes("caf\xe9 off\n\xc5ngstr\xf6m on\n".encode())
    code = (
        "import sys; from pathlib import Path; from sluice import config\n"
        "path = Path(sys.argv[1]); rules = [one.rule for one in config.read(path)]\n"
        "assert any(rule.matches(sys.argv[2]) for rule in rules), rules\n"
        "config.remember(rules, path)\n"
    )
    for mode in ("0", "1"):  # names are ASCII with escapes, or UTF-8
        before = path.read_bytes()
        done = subprocess.run(
            [sys.executable, "-B", "-c", code, path, "caf\xe9".encode()],
            env={"LC_ALL": "C", "PYTHONUTF8": mode, "PYTHONCOERCECLOCALE": "0",
                 "PYTHONPATH": str(TREE)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (mode, done.stderr)
        assert sorted(path.read_bytes().split()) == sorted(before.split())


# What a kernel accepts in a device's name: all but a slash, a colon and a space.
@pytest.mark.parametrize("name", [
    *("on", "off", "-x", "--now", "a=b", "limit=0", "a#b", "a*b", "a[b", "a]b"),
    *("[!a]", "?", "\\", "'", '"', "$(id)", "a;b", "caf\xe9", "\u2603", "tap\udcff"),
    *("\x1b[2J", "...", "x" * 15, "[]]", "[!]]"),
])
def test_odd_names_are_remembered_and_found(tmp_path: Path, name: str) -> None:
    path = tmp_path / "conf"
    others = [Rule("tap0", True), Rule(name, False), Rule("tap1", True)]
    config.remember(others, path)
    lines = config.read(path)
    assert not config.wrongs(lines)
    assert [line.rule for line in lines if line.rule] == others
    exact = glob.escape(name)
    config.remember([Rule(exact, True)], path)
    assert rule_for(name, config.read(path)) == Rule(exact, True)


FULL = "tap0 on stall-ms=100 limit=7 qdisc=cake"
VNET = "vnet* on stall-ms=100 qdisc=fq"


@pytest.mark.parametrize(("before", "rule", "after"), [
    # Other lines are kept, the line stays where it is unless another would hide it.
    ("# a||tap0 on  # b|tap1 maybe|  # end", Rule("tap0", False),
     "# a||tap0 off # b|tap1 maybe|  # end"),
    ("tap0 on|# end||# end", Rule("tap0", False), "tap0 off|# end||# end"),
    ("tap0 on|# a|tap* on|# end", Rule("tap0", False), "# a|tap* on|# end|tap0 off"),
    # What is not said stays as it was.
    (FULL, Rule("tap0", True, {"limit": 9}), FULL.replace("limit=7", "limit=9")),
    (FULL, Rule("tap0", True, qdisc="fq"), FULL.replace("cake", "fq")),
    (FULL, Rule("tap0", False), FULL.replace("on", "off")),
    # A name keeps what its pattern says; a pattern has its own.
    (VNET, Rule("vnet3", False), f"{VNET}|vnet3 off stall-ms=100 qdisc=fq"),
    (VNET, Rule("vnet?", False), f"{VNET}|vnet? off"),
])
def test_file_with_a_rule_that_takes_effect(before: str, rule: Rule, after: str) -> None:
    lines = remembered(parse(before.replace("|", "\n")), rule)
    assert "|".join(line.text for line in lines) == after


def test_new_file_explains_itself(tmp_path: Path) -> None:
    path = tmp_path / "conf"
    config.remember([Rule("tap0", True)], path)
    assert path.read_text() == config.HEADER + "tap0 on\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert not config.wrongs(config.read(path))


def test_device_behind_a_link_is_not_replaced(tmp_path: Path) -> None:
    """A masked configuration file is a link to /dev/null."""
    pipe, path = tmp_path / "pipe", tmp_path / "sluice.conf"
    os.mkfifo(pipe)
    path.symlink_to(pipe)
    with pytest.raises(SluiceError, match="replace the link by a file"):
        with config.writing(parse("tap1 off\n"), path):
            pass
    assert stat.S_ISFIFO(pipe.stat().st_mode) and path.is_symlink()


def test_rights_links_and_strange_bytes_survive(tmp_path: Path) -> None:
    real, path = tmp_path / "real", tmp_path / "conf"
    real.write_bytes(b"# caf\xe9\n")
    real.chmod(0o640)
    path.symlink_to(real)
    config.remember([Rule("tap0", True)], path)
    assert path.is_symlink() and real.read_bytes() == b"# caf\xe9\ntap0 on\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_failed_write_leaves_the_file_whole(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "conf"
    path.write_text("tap0 on\n")
    full_disk = OSError(28, "No space left on device")
    monkeypatch.setattr(os, "fsync", raising(full_disk))
    with pytest.raises(SluiceError, match="no space left"):
        config.remember([Rule("tap1", True)], path)
    assert path.read_text() == "tap0 on\n"
    assert [p.name for p in tmp_path.iterdir()] == ["conf"]


@pytest.mark.parametrize(("code", "advice"), [
    (errno.EPERM, "chattr -i "),
    (errno.EACCES, "SELinux"),
    (errno.EROFS, "/etc/sluice.conf.d"),
    (errno.ENOSPC, "free some space"),
    (errno.EDQUOT, "free some space"),
    (errno.EIO, "dmesg"),
])
def test_each_refusal_has_its_advice(tmp_path, monkeypatch, code, advice) -> None:
    path = tmp_path / "conf"
    path.write_text("tap0 on\n")
    monkeypatch.setattr(os, "open", raising(OSError(code, os.strerror(code))))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SluiceError, match=advice) as raised:
        config.remember([Rule("tap1", True)], path)
    assert "as root" not in str(raised.value) and str(path) in str(raised.value)
    if code == errno.EACCES:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(Denied, match="lock: permission denied; run it as root$"):
            with config.locked(tmp_path / "lock"):
                pass
    assert path.read_text() == "tap0 on\n"


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EROFS, errno.EACCES, errno.EPERM])
@pytest.mark.parametrize("before", ["tap0 on\n", "tap0 on\n" + "# long\n" * 99])
def test_file_that_cannot_be_replaced_is_changed_in_place(
    tmp_path, monkeypatch, code: int, before: str
) -> None:
    """A bind mount, or a folder that is read-only or immutable."""
    path = tmp_path / "conf"
    path.write_text(before)
    path.chmod(0o640)
    inode = path.stat().st_ino
    monkeypatch.setattr(os, "rename", raising(OSError(code, os.strerror(code))))
    with config.writing(parse("tap1 off\n"), path):
        assert path.read_text() == "tap1 off\n"
    assert path.stat().st_ino == inode and path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["conf"]


def test_module_that_refuses_leaves_the_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "conf"
    for before in (None, b"tap0 on\r\n# caf\xe9"):
        if before is not None:
            path.write_bytes(before)
        with pytest.raises(ZeroDivisionError), config.writing(parse("x on"), path):
            assert path.read_text() == "x on\n"
            raise ZeroDivisionError
        assert before == (path.read_bytes() if path.exists() else None)


def test_file_that_cannot_be_put_back_is_said(tmp_path, monkeypatch) -> None:
    path = tmp_path / "conf"
    path.write_text("tap0 on\n")
    with pytest.raises(SluiceError, match="^no; the rules stay in the file: .*conf"):
        with config.writing(parse("x on"), path):
            path.unlink()
            path.mkdir()
            raise SluiceError("no")


def _remember_many(folder: Path, number: int) -> None:
    for turn in range(20):
        rule = Rule(f"tap{number}", bool(turn % 2), {"stall-ms": turn + 1})
        with config.locked(folder / "lock"):
            config.remember([rule], folder / "conf")


def test_nothing_is_lost_among_many_writers(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("# kept\n")
    writers = [
        multiprocessing.Process(target=_remember_many, args=(tmp_path, number))
        for number in range(6)
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert not config.wrongs(config.read(tmp_path / "conf"))
    assert [writer.exitcode for writer in writers] == [0] * 6
    lines = config.read(tmp_path / "conf")
    assert lines[0].text == "# kept" and len(lines) == 7
    for number in range(6):
        rule = Rule(f"tap{number}", True, {"stall-ms": 20})
        assert rule_for(f"tap{number}", lines) == rule


def test_lock_is_the_owners_and_no_link_is_followed(tmp_path: Path) -> None:
    lock, link = tmp_path / "lock", tmp_path / "link"
    with config.locked(lock):
        pass
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    link.symlink_to(tmp_path / "target")
    with pytest.raises(SluiceError, match="symbolic links"), config.locked(link):
        pass
    assert not (tmp_path / "target").exists()


def test_backslash_does_not_quote_in_the_module() -> None:
    for pattern in ("tap*", "[\\]x", "[", "[]]"):
        assert config.module_pattern(pattern) == pattern
    assert config.module_pattern("a\\b") == "a[\\]b"
    assert config.module_pattern("[!a]\\") == "[!a][\\]"


def test_files_of_the_folder_come_first(machine) -> None:
    config.FOLDER.mkdir()
    (config.FOLDER / "20-b.conf").write_text("tap* off\n")
    (config.FOLDER / "10-a.conf").write_text("tap* on\n# x\nvnet* on netns=host\n")
    for name in ("ignored", "30.conf~", "30.conf.dpkg-old"):
        (config.FOLDER / name).write_text("nonsense\n")
    config.PATH.write_text("\ntap0 on\n")
    rules = config.read_all()
    assert not rules.wrongs
    assert [one.origin.rpartition("/")[2] for one in rules.entries] == [
        "10-a.conf:1", "10-a.conf:3", "20-b.conf:1", "sluice.conf:2",
    ]
    assert rules.entry_for("tap0").rule.on and not rules.entry_for("tap1").rule.on
    assert rules.entry_for("vnet1") and not rules.entry_for("vnet1", host=False)


def test_what_is_wrong_in_any_file_has_its_line(machine) -> None:
    config.FOLDER.mkdir()
    (config.FOLDER / "x.conf").write_text("tap0 on\ntap1 of\n")
    config.PATH.mkdir()  # cannot be read as a file
    unreadable, wrong = config.read_all().wrongs
    assert wrong.startswith(f"{config.FOLDER / 'x.conf'}:2: ")
    assert unreadable.startswith(f"{config.PATH}: is a directory")


def test_origin_ends_with_the_line_where_the_module_has_no_room() -> None:
    rule = Rule("tap0", True)
    assert config.Entry(rule, Path("/c"), 7).origin == "/c:7"
    long = config.Entry(rule, Path("/", "x" * 200), 7).origin
    assert len(long) == 127 and long.endswith("xx:7")


def test_there_is_a_bound_of_rules(machine) -> None:
    config.PATH.write_text("a* on\n" * 256)
    assert not config.read_all().wrongs
    config.PATH.write_text("a* on\n" * 257)
    (wrong,) = config.read_all().wrongs
    assert wrong.startswith(f"{config.PATH}:257: more than 256 rules")


def test_check_and_show_tell_what_the_module_has(machine, run) -> None:
    def states() -> set[str]:
        answers = [run(f"config {verb} --json").out for verb in ("check", "show")]
        return {json.loads(one)["rules"][0]["module"] for one in answers}

    config.PATH.write_text("tap0 off\n")
    assert states() == {"not loaded"}
    run("apply")
    assert states() == {"loaded"}
    machine.loaded = False
    assert states() == {"not loaded"}


def test_a_file_is_checked_before_it_is_copied(machine, run, tmp_path: Path) -> None:
    config.PATH.write_text("nonsense\n")
    path = tmp_path / "new.conf"
    path.write_text("t* on\n")
    assert run(["config", "check", str(path)]).out == "1 rule, no error\n"
    path.write_text("t* on\ntap0 maybe\ntap1\n")
    reason = "on or off is missing after the pattern"
    assert run(["config", "check", str(path)], 1).err.splitlines() == [
        f"sluice: {path}:{number}: {reason}" for number in (2, 3)
    ]
    assert "no such file" in run(["config", "check", str(tmp_path / "none")], 1).err
    assert "show takes no file" in run(["config", "show", str(path)], 2).err


# Commands that are killed between any two of their steps

STEPS = ("rename", "pwrite", "ftruncate", "fsync", "fchmod", "unlink")
BEFORE = "tap0 on\n" + "# a long comment\n" * 9 + "tun0 off\n"


def _play(arguments: list[str], number: int, in_place: bool, module: Path) -> None:
    """Run the command, and be killed before its step of this number."""
    passed = 0

    def stopping(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*words: Any) -> Any:
            nonlocal passed
            if passed == number:
                os.kill(os.getpid(), signal.SIGKILL)
            passed += 1
            return call(*words)

        return step

    def set_rules(rules: object, reset: object) -> None:
        module.write_bytes(pickle.dumps(rules))

    if in_place:
        os.rename = raising(OSError(16, "Device or resource busy"))  # a bind mount
    for name in STEPS:
        setattr(os, name, stopping(getattr(os, name)))
    system.set_rules = stopping(set_rules)
    os._exit(main(arguments))


def _killed(arguments: list[str], number: int, in_place: bool, module: Path) -> bool:
    words = (arguments, number, in_place, module)
    process = multiprocessing.get_context("fork").Process(target=_play, args=words)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("arguments", ["off tap0", "on vnet* --limit 7", "forget tun0"])
def test_doctor_names_what_a_kill_leaves(
    machine: Machine, tmp_path: Path, arguments: str, in_place: bool
) -> None:
    module, number, named = tmp_path / "module", 0, 0
    while True:
        config.PATH.write_text(BEFORE)
        assert main(["apply"]) == 0
        module.write_bytes(pickle.dumps(machine.rules))
        if not _killed(arguments.split(), number, in_place, module):
            break
        machine.rules = pickle.loads(module.read_bytes())
        facts = doctor.Facts(
            wrongs=config.read_all().wrongs,
            drift=doctor.read_drift(),
            unfinished=doctor.read_unfinished(),
        )
        findings = [*doctor.check_rules(facts)]
        same = doctor.read_drift() == () and not facts.unfinished
        assert bool(findings) != same, (number, findings)
        assert not facts.wrongs, "a half of the rules is in the file"
        named += bool(findings)
        assert main(["apply"]) == 0 and doctor.read_drift() == ()
        number += 1
    assert number >= 4 and named >= 1
    assert not config.unfinished().exists(), "the next command did not clear up"
