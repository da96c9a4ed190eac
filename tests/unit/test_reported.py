# SPDX-License-Identifier: GPL-2.0-or-later
"""What others reported of programs like this one: each report's whole kind."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sluice import cli, config, doctor, namespaces, system

TREE = Path(__file__).resolve().parents[2]
ODD = [
    (lambda path: (path.touch(), os.truncate(path, 1 << 30)), "at most 1 MB"),
    (lambda path: path.write_text("* off\n", "utf-16"), "has NUL bytes"),
    (Path.mkdir, "is a directory"),
    (os.mkfifo, "not a regular file"),
    (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    (lambda path: path.symlink_to("nowhere"), "link to nowhere, which is missing"),
    (lambda path: path.symlink_to(path.name), "too many levels of symbolic links"),
]
CASES = [(name, *one) for name in ("sluice.conf", "sluice.conf.d/a.conf") for one in ODD]
CASES += [("sluice.conf.d", *one) for one in ODD[-2:]]
CASES += [("sluice.conf.d", os.mkfifo, "not a directory")]


@pytest.mark.parametrize(("place", "make", "reason"), CASES)
def test_what_is_no_file_of_rules_is_said_on_one_line(
    machine, run, monkeypatch, tmp_path, place, make, reason
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(place).parent.mkdir(exist_ok=True)
    make(Path(place))
    for words in ("config check", "apply", "off tap0"):
        said = run(words, 1)
        assert reason in said.err and (said.out, said.err.count("\n")) == ("", 1)
    assert machine.rules == []


@pytest.mark.parametrize("words", ["config check", "apply --dry-run", "off --dry-run x"])
def test_file_that_only_root_may_read(machine, monkeypatch, run, words) -> None:
    def deny(path: Path, _: int = 0) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(system, "read_file", deny)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert f"{config.PATH}: permission denied; run it as root" in run(words, 4).err


def test_hidden_file_is_not_read_and_doctor_says_so(machine, run) -> None:
    config.FOLDER.mkdir()
    (config.FOLDER / ".10-a.conf").write_text("* off\n")
    (config.FOLDER / ".#10-a.conf").symlink_to("somebody@here.1")  # an editor's lock
    assert "no rule" in run("config show").out
    names = [Path(one).name for one in doctor.read_facts().unused]
    assert names == [".#10-a.conf", ".10-a.conf"]


@pytest.mark.parametrize(("words", "code", "said"), [
    ("status >&-", 1, "output: stdout is closed"),
    ("-V >/dev/full", 1, "the disk is full"),
    ("--help >/dev/full", 1, "the disk is full"),
    ("status --json /x >/dev/full", 2, "no name has '/'"),
    ("status /x 2>/dev/full", 2, ""),
    ("-V >/dev/full 2>/dev/full", 1, ""),
    ("config check nowhere <&-", 1, "nowhere: no such file"),
    ("metrics --output pipe", 1, "pipe: not a regular file"),
    ("-S -V >&-", 1, "stdout is closed"),  # without its library
    ("-S status >&- 2>/dev/full", 3, ""),
])
def test_failing_stream_is_said_on_one_line(tmp_path, words, code, said) -> None:
    os.mkfifo(tmp_path / "pipe")
    python = "-S" * words.startswith("-S ")
    known = {name: text for name, text in os.environ.items() if "UNBUF" not in name}
    done = subprocess.run(
        ["sh", "-c", f'"$0" -B {python} -m sluice {words[len(python):]}', sys.executable],
        env={**known, "PYTHONPATH": str(TREE)}, cwd=tmp_path, text=True,
        stdin=subprocess.DEVNULL, capture_output=True,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr and done.stderr.count("\n") == bool(said)


@pytest.mark.parametrize(("words", "code", "said"), [
    (["tun 7"], 2, "no name has ' '"),
    (["off", "all"], 2, "the kernel refuses it; for all devices write *"),
    (["t\udcfe"], 2, r"'t\xfe' is not a subcommand or a device"),
    (["tap*", "off"], 2, "the subcommand comes first: sluice off 'tap*'"),
    (["on", "--limit"], 2, "on: Option '--limit' requires an argument; see: sluice on"),
    (["watch", "--interval", "nan"], 2, "'nan' is not a valid number"),
    (["--netns", "./pipe"], 1, "netns ./pipe: is none"),
    (["--netns", "./nowhere"], 1, "netns ./nowhere: no such file"),
])
def test_word_of_nothing(monkeypatch, tmp_path, run, words, code, said) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_read_names", lambda: ["tap0"])
    assert said in run(words, code).err


@pytest.mark.parametrize("name", [b"m\xff", b" \\\t#\n", b"\xc2\xa0", b"\\040", b"\f"])
def test_mount_of_any_name_may_be_a_namespace(monkeypatch, tmp_path, name) -> None:
    shown = re.sub(rb"[ \\\t\n#]", lambda one: b"\\%03o" % one[0][0], name)
    (tmp_path / "self").mkdir()
    line = b"9 1 0:4 net:[40] /run/%s rw - nsfs nsfs rw\n" % shown
    (tmp_path / "self/mountinfo").write_bytes(b"8 1 0:5 / /\xff rw - tmpfs t rw\n" + line)
    monkeypatch.setattr(namespaces, "PROC", tmp_path)
    assert namespaces._read_mounts() == [Path(os.fsdecode(b"/run/" + name))]


@pytest.mark.parametrize("variable", ["PYTHONPATH", "PYTHONHOME", "HOME", "PWD"])
def test_no_module_of_the_caller_is_run(tmp_path, variable) -> None:
    version = "python%d.%d" % sys.version_info[:2]
    for folder in (".", f".local/lib/{version}/site-packages", f"lib/{version}"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name in ("click", "sluice", "errno", "json", "usercustomize"):
            (tmp_path / folder / f"{name}.py").write_text("raise SystemExit(9)")
    done = subprocess.run([TREE / "bin/sluice", "-V"], capture_output=True, text=True,
                          cwd=tmp_path, env={variable: str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "sluice 0.1.0\n"), done.stderr


ACL = bytes.fromhex("02000000" "01000600ffffffff" "0200060007000000" "04000400ffffffff"
                    "10000600ffffffff" "20000000ffffffff")  # user 7 may read and write


@pytest.mark.parametrize("linked", [False, True])
def test_rewritten_file_keeps_all(run, machine, tmp_path, linked) -> None:
    name = "system.posix_acl_access"
    config.PATH.write_text("tun0 on\n" * 9)
    try:
        os.setxattr(config.PATH, name, ACL)
    except OSError as error:
        pytest.skip(f"{name}: {error.strerror}")
    if linked:
        (tmp_path / "other").hardlink_to(config.PATH)
    before = config.PATH.stat().st_mode, config.PATH.stat().st_nlink
    run("forget tun0")
    run("off tap0")
    assert os.getxattr(config.PATH, name) == ACL
    assert (config.PATH.stat().st_mode, config.PATH.stat().st_nlink) == before
    assert "tap0 off" in (tmp_path / "other" if linked else config.PATH).read_text()
