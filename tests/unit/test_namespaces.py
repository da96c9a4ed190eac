# SPDX-License-Identifier: GPL-2.0-or-later
"""Which network namespaces there are, and by what name each is shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice import namespaces
from sluice.errors import Denied, Gone, SluiceError
from sluice.namespaces import Namespace


class System:
    """A /proc and a /run/netns: a file is a namespace, a second name is a link."""

    def __init__(self, folder: Path) -> None:
        self.names, self.proc = folder / "netns", folder / "proc"
        for made in (self.names, self.proc / "self/ns"):
            made.mkdir(parents=True)
        self.own = self.proc / "self/ns/net"
        self.own.touch()

    def process(self, pid: int, command: str, of: Path | None = None) -> Path:
        where = self.proc / str(pid) / "ns/net"
        where.parent.mkdir(parents=True)
        (self.proc / str(pid) / "comm").write_text(f"{command}\n")
        if of:
            os.link(of, where)
        else:
            where.touch()
        return where


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> System:
    made = System(tmp_path)
    monkeypatch.setattr(namespaces, "NAMES", made.names)
    monkeypatch.setattr(namespaces, "PROC", made.proc)
    monkeypatch.setattr(namespaces, "OWN", made.own)
    monkeypatch.setattr(namespaces, "HOST", made.proc / "1/ns/net")
    return made


def test_each_namespace_is_found_once_by_its_best_name(there: System) -> None:
    docker = there.proc.parent / "docker"
    docker.touch()
    for name in ("red", "blue", "35"):
        (there.names / name).touch()
    mounts = [docker, there.names / "red", there.proc / "gone"]
    (there.proc / "self/mountinfo").write_text(
        "".join(f"21 1 0:4 net:[1] {path} rw - nsfs nsfs rw\n" for path in mounts)
    )
    there.process(1, "init", there.own)
    there.process(20, "dhcpd", there.names / "red")
    there.process(100, "unnamed")
    there.process(30, "lower", there.proc / "100/ns/net")
    named = there.process(35, "named")
    there.process(40, "dockerd", docker)
    found = namespaces.read_all()
    assert [(one.name, one.process) for one in found] == [
        ("", ""), ("35", ""), ("blue", ""), ("red", ""), (str(docker), "dockerd"),
        ("30", "lower"), (str(named), "named"),
    ]
    assert [one.inode for one in found] == [
        path.stat().st_ino
        for path in (there.own, there.names / "35", there.names / "blue",
                     there.names / "red", docker, there.proc / "100/ns/net", named)
    ]
    assert namespaces.read_names() == ["35", "blue", "red"]
    assert namespaces.find(str(named)).inode == named.stat().st_ino


def test_without_names_and_mounts_there_is_our_own(there: System) -> None:
    there.names.rmdir()
    own = Namespace("", there.own.stat().st_ino, there.own)
    assert namespaces.read_names() == [] and namespaces.read_all() == [own]
    (there.proc / "7").mkdir()  # a process that ended meanwhile
    assert namespaces.read_all() == [own]


def test_host_is_where_process_1_is(there: System) -> None:
    inode = there.own.stat().st_ino
    assert namespaces.is_host(inode), "process 1 cannot be seen"
    first = there.process(1, "init")
    assert not namespaces.is_host(inode)
    assert namespaces.is_host(first.stat().st_ino)


def test_namespace_is_named_by_name_path_or_process(there: System) -> None:
    red = there.names / "red"
    red.touch()
    assert namespaces.find("") == namespaces.own()
    assert namespaces.find("red") == Namespace("red", red.stat().st_ino, red)
    assert namespaces.find(str(red)) == Namespace(str(red), red.stat().st_ino, red)
    path = there.process(42, "qemu")
    assert namespaces.find("42") == Namespace("42", path.stat().st_ino, path, "qemu")
    (there.proc / "42/comm").unlink()
    assert namespaces.find("42").process == "?"


def test_what_is_no_namespace_is_an_error(there: System) -> None:
    for name, text in (("blue", "not in .*/netns"), ("43", "no such process"),
                       ("/none/net", "no such file")):
        with pytest.raises(Gone, match=f"^netns {name}: {text}; see: ip netns$"):
            namespaces.find(name)


def test_process_that_only_root_may_see(there: System, monkeypatch) -> None:
    (there.proc / "44").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SluiceError, match="^netns 44: not shown to this root") as shown:
        namespaces.find("44")
    assert shown.type is SluiceError
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Denied, match="^netns 44: cannot be seen; run it as root$"):
        namespaces.find("44")


@pytest.mark.parametrize(("error", "raised", "text"), [
    (FileNotFoundError(2, "x"), Gone, "vanished; see: ip netns"),
    (PermissionError(1, "x"), Denied, "cannot be entered; run it as root"),
    (OSError(22, "x"), Gone, "is none; see: ip netns"),
    (OSError(12, "x"), SluiceError,
     r"cannot be entered \(cannot allocate memory\); see: ip netns"),
])
def test_namespace_that_cannot_be_entered(
    there: System, monkeypatch, error: OSError, raised: type[SluiceError], text: str
) -> None:
    def setns(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(namespaces, "setns", setns)
    red = there.names / "red"
    red.touch()
    with pytest.raises(raised, match=f"^netns red: {text}$") as found:
        with namespaces.netns("red"):
            pass
    assert found.type is raised


def test_block_runs_inside_and_comes_back_even_after_an_error(
    there: System, monkeypatch
) -> None:
    entered: list[int] = []

    def setns(descriptor: int, **_: object) -> None:
        entered.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(namespaces, "setns", setns)
    red = there.names / "red"
    red.touch()
    home, away = there.own.stat().st_ino, red.stat().st_ino
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ZeroDivisionError), namespaces.netns("red") as one:
        assert one.name == "red" and entered == [away]
        raise ZeroDivisionError
    assert entered == [away, home]
    with namespaces.netns(""), namespaces.netns(str(there.own)):
        assert entered == [away, home], "our own is not entered"
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_words_for_what_netns_names() -> None:
    texts = [namespaces.described(name) for name in (None, "red", "")]
    assert texts == [
        "any network namespace", "network namespace red", "this network namespace",
    ]
