# SPDX-License-Identifier: GPL-2.0-or-later
"""What is read from files, programs, rtnetlink and network namespaces."""

from __future__ import annotations

import errno
import gzip
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from sluice import namespaces, rtnl, system, wire
from sluice.errors import Denied, Gone, NetlinkError, SluiceError
from sluice.namespaces import Namespace
from sluice.rtnl import Link, QdiscStats
from sluice.wire import attribute
from tests.unit._machine import raising


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The parent of a sys and a proc."""
    for name in ("sys", "proc"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(system, name.upper(), tmp_path / name)
    return tmp_path


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def test_qdisc_of_each_queue_is_below_mq(monkeypatch) -> None:
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(rtnl, "replace_qdisc", lambda *how: calls.append(how))
    root, handle = rtnl.ROOT, system.QDISC_HANDLE
    system.attach_qdisc(7, 1, "fq")
    assert calls == [(7, "fq", handle, root)]
    calls.clear()
    system.attach_qdisc(7, 2, "fq")
    assert calls == [
        (7, "mq", handle, root), (7, "fq", 0, handle | 1), (7, "fq", 0, handle | 2),
    ]


class Module:
    """In place of a client: raises an error, or is set."""

    error: Exception | None = None
    given: list[object] = []

    def __enter__(self) -> Module:
        if Module.error:
            raise Module.error
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def devices(self) -> list[str]:
        return ["device"]

    def queues(self) -> list[str]:
        return ["queue"]

    def rules(self) -> list[str]:
        return ["rule"]

    def set_rules(self, *what: object) -> None:
        Module.given.append(what)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> type[Module]:
    Module.error, Module.given = None, []
    monkeypatch.setattr(system, "Client", Module)
    monkeypatch.setattr(namespaces, "is_host", lambda inode: True)
    return Module


def test_module_that_is_not_loaded_or_too_new(module: type[Module]) -> None:
    assert system.read_module() == system.ModuleAnswer(("device",), ("queue",))
    assert system.read_rules() == ["rule"]
    module.error = LookupError()
    assert system.read_module() is None and system.read_rules() is None
    module.error = IndexError()  # a state that this command does not know
    with pytest.raises(SluiceError, match="newer than this command"):
        system.read_module()
    module.error = NetlinkError(errno.EOPNOTSUPP)
    assert system.read_rules() is None
    module.error = NetlinkError(errno.EPERM)
    with pytest.raises(NetlinkError):
        system.read_rules()


@pytest.mark.parametrize("at_home", [True, False])
def test_rules_are_set_in_the_namespace_of_the_host(
    module: type[Module], monkeypatch, at_home: bool
) -> None:
    entered: list[Path | None] = []

    class Entered:
        def __init__(self, one: namespaces.Namespace) -> None:
            entered.append(one.path)

        __enter__ = __exit__ = lambda *_: None

    monkeypatch.setattr(namespaces, "is_host", lambda inode: at_home)
    monkeypatch.setattr(namespaces, "entered", Entered)
    system.set_rules(["rule"], ["tap0"])
    assert module.given == [(["rule"], ["tap0"])]
    assert entered == ([] if at_home else [namespaces.HOST])


def test_version_and_parameters_of_the_module(folder: Path) -> None:
    assert system.read_module_version() == "" and system.read_parameters() == {}
    module = folder / "sys/module/sluice"
    module.mkdir(parents=True)
    assert system.read_module_version() == "unknown"
    write(module / "version", "0.1.0\n")
    write(module / "parameters/stall_ms", "250\n")
    (module / "parameters/secret").mkdir()  # cannot be read
    assert system.read_module_version() == "0.1.0"
    assert system.read_parameters() == {"secret": "?", "stall_ms": "250"}


def test_kernel_says_what_it_allows(folder: Path) -> None:
    assert system.read_secure_boot() is None
    name = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    for content in (b"\6\0\0\0\1", b"\6\0\0\0\0", b"\1"):
        write(folder / "sys/firmware/efi/efivars" / name, content)
        assert system.read_secure_boot() is (content[4:] == b"\1")
    assert system.read_kernel_config("no-such-release") is None
    write(folder / "proc/config.gz", gzip.compress(b"CONFIG_MODULES=y\n"))
    assert system.read_kernel_config("no-such-release") == "CONFIG_MODULES=y\n"
    assert not system.has_modules() and not system.read_modules_disabled()
    write(folder / "proc/modules", "")
    write(folder / "proc/sys/kernel/modules_disabled", "0\n")
    assert system.has_modules() and not system.read_modules_disabled()
    write(folder / "proc/sys/kernel/modules_disabled", "1\n")
    assert system.read_modules_disabled()
    assert system.read_signed_only() == ""
    for text, by in (("[none] integrity confidentiality", ""),
                     ("none [integrity] confidentiality", "lockdown"),
                     ("none integrity [confidentiality]", "lockdown")):
        write(folder / "sys/kernel/security/lockdown", f"{text}\n")
        assert system.read_signed_only() == by
    write(folder / "sys/module/module/parameters/sig_enforce", "N\n")
    assert system.read_signed_only() == "lockdown"
    write(folder / "sys/module/module/parameters/sig_enforce", "Y\n")
    assert system.read_signed_only() == "module.sig_enforce"


def test_program_that_fails_or_hangs_or_does_not_exist(monkeypatch) -> None:
    assert system.read_output("sh", "-c", "echo out; echo err >&2; exit 3") == (
        3, "out\nerr\n",
    )
    assert system.read_output("no such program") == (127, "")
    assert system.read_output("sleep", "60", seconds=0.05) == (126, "")
    assert system.read_output("cat") == (0, ""), "it waits for no input"
    for answer, dkms in (((127, ""), None), ((126, ""), system.NO_ANSWER), ((0, ""), ""),
                         ((0, " sluice/0.1.0: installed\n"), "sluice/0.1.0: installed")):
        monkeypatch.setattr(system, "read_output", lambda *_, it=answer, **__: it)
        assert system.read_dkms() == dkms


# rtnetlink

STATS = struct.pack("=24Q", *(100 + n for n in range(24)))
FOUR = attribute(rtnl.TUN_NUM_QUEUES, struct.pack("=I", 4))
DATA = attribute(rtnl.TUN_TYPE, b"\2") + FOUR


def link_message(
    kind: bytes = b"tun", data: bytes = DATA, name: bytes = b"tap0", hardware: int = 1
) -> bytes:
    info = attribute(rtnl.INFO_KIND, kind + b"\0") + attribute(rtnl.INFO_DATA, data)
    parts = [
        (rtnl.IFNAME, name + b"\0"),
        (rtnl.TXQLEN, struct.pack("=I", 1000)),
        (rtnl.QDISC, b"pfifo_fast\0"),
        (rtnl.STATS64, STATS),
        (rtnl.LINKINFO, info),
    ]
    header = struct.pack("=BxHiII", 0, hardware, 5, 0x1003, 0)
    return header + b"".join(attribute(kind, value) for kind, value in parts)


def test_links_that_are_ours() -> None:
    tap = Link(5, "tap0", "tap", True, "pfifo_fast", 1000, 4, 107, 101, None)
    assert rtnl.parse_link(link_message()) == tap
    assert rtnl.parse_link(link_message(name=b"t\xff")) == replace(tap, name="t\udcff")
    for hardware, kind in ((1, "tap"), (65534, "tun")):  # the kernel does not tell
        link = rtnl.parse_link(link_message(data=b"", hardware=hardware))
        assert link == replace(tap, kind=kind, queues=1)
    assert rtnl.parse_link(link_message(b"veth")) is None
    loopback = struct.pack("=BxHiII", 0, 772, 1, 1, 0) + attribute(rtnl.IFNAME, b"lo\0")
    assert rtnl.parse_link(loopback) is None


def qdisc_message(parent: int, drops: int, kind: bytes, app: bytes = b"") -> bytes:
    queue = struct.pack("=5I", 3, 300, drops, 1, 2)
    stats = attribute(rtnl.STATS_QUEUE, queue) + attribute(rtnl.STATS_APP, app)
    header = struct.pack("=BxxxiIII", 0, 5, 0, parent, 0)
    named = header + attribute(rtnl.TCA_KIND, kind + b"\0")
    return named + attribute(rtnl.TCA_STATS2, stats)


def test_qdisc_counts_are_the_roots_and_marks_those_of_all() -> None:
    root = qdisc_message(rtnl.ROOT, 9, b"mq")
    leaves = [
        qdisc_message(0x10000 + n, 4, b"fq_codel", struct.pack("=4I", 0, 1, 1, n))
        for n in (1, 2)
    ]
    found = rtnl.parse_qdiscs([root, *leaves])
    assert found == {5: QdiscStats(3, 300, 9, 2, 1, 3)}
    assert rtnl.parse_qdiscs([root])[5].marks is None
    assert rtnl.parse_qdiscs([leaves[0]]) == {}


def test_this_kernel_answers() -> None:
    assert rtnl.read_qdiscs() is not None
    assert all(link.kind in ("tun", "tap") for link in rtnl.read_links())


def test_kernel_may_ignore_the_filter(monkeypatch) -> None:
    """It does while the driver of tun devices is not loaded."""
    answer = [link_message(b"veth"), link_message()]
    monkeypatch.setattr(wire.Socket, "request", lambda *_: answer)
    assert [link.name for link in rtnl.read_links()] == ["tap0"]


# Network namespaces


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
    monkeypatch.setattr(namespaces, "setns", raising(error))
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
