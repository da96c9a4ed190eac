# SPDX-License-Identifier: GPL-2.0-or-later
"""What is read from files and programs, and what is made of rtnetlink's answers."""

from __future__ import annotations

import errno
import gzip
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from sluice import namespaces, rtnl, system, wire
from sluice.errors import NetlinkError, SluiceError
from sluice.rtnl import Link, QdiscStats
from sluice.wire import attribute

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
