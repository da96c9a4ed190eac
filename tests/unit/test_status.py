# SPDX-License-Identifier: GPL-2.0-or-later
"""What status says, in words and in JSON."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyroute2.netlink import exceptions

from sluice import config, netlink, system
from sluice.cli import main
from sluice.system import Owner, parse_iff, parse_link, parse_tun_flags
from tests.unit._machine import DEVICE0, QUEUE0, TAP0, Machine

# What rtnetlink answered for `ip tuntap add mode tap tap0` on 6.18.
RECORDED = {
    "index": 5,
    "ifi_type": 1,
    "flags": 0x1003,
    "attrs": [
        ("IFLA_IFNAME", "tap0"),
        ("IFLA_TXQLEN", 1000),
        ("IFLA_QDISC", "pfifo_fast"),
        ("IFLA_STATS64", {"tx_packets": 3, "tx_dropped": 23}),
        (
            "IFLA_LINKINFO",
            {
                "attrs": [
                    ("IFLA_INFO_KIND", "tun"),
                    (
                        "IFLA_INFO_DATA",
                        {
                            "attrs": [
                                ("IFLA_TUN_TYPE", 2),
                                ("IFLA_TUN_MULTI_QUEUE", 1),
                                ("IFLA_TUN_NUM_QUEUES", 4),
                            ]
                        },
                    ),
                ]
            },
        ),
    ],
}


def test_recorded_link() -> None:
    link = parse_link(RECORDED, 0x1002)
    assert link is not None
    assert (link.name, link.kind, link.up, link.queues) == ("tap0", "tap", True, 4)
    assert (link.qdisc, link.ring, link.tx_dropped) == ("pfifo_fast", 1000, 23)
    assert link.upstream is False
    assert parse_link(RECORDED, 0x1082).upstream is True
    assert parse_link(RECORDED, 0x1001).kind == "tun"


def test_without_sysfs_the_kind_is_known_but_not_the_flag() -> None:
    assert parse_link(RECORDED, None).upstream is None
    assert parse_link(RECORDED, None).kind == "tap"
    assert parse_link({**RECORDED, "ifi_type": 65534}, None).kind == "tun"


def test_other_links_are_none_of_ours() -> None:
    bare = [pair for pair in RECORDED["attrs"] if pair[0] != "IFLA_LINKINFO"]
    assert parse_link({**RECORDED, "attrs": bare}, None) is None
    other = ("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", "veth")]})
    assert parse_link({**RECORDED, "attrs": [*bare, other]}, None) is None


def test_flags_and_descriptors() -> None:
    assert parse_tun_flags("0x1802\n") == 0x1802
    assert parse_tun_flags("") is None and parse_tun_flags(None) is None
    assert parse_iff("pos:\t0\nflags:\t02100002\niff:\ttap0\n") == "tap0"
    assert parse_iff("pos:\t0\n") == ""


def test_owner_of_the_same_namespace_comes_first() -> None:
    here, there = Owner(7, "a", False, 1), Owner(5, "b", False, 2)
    owners = {"tun0": [here, there]}
    assert system.owners_of("tun0", 1, owners) == [here]
    assert system.owners_of("tun0", 3, owners) == [there, here]  # it moved
    assert system.owners_of("tun9", 1, owners) == []


def test_owners_are_read_from_proc(tmp_path: Path, monkeypatch) -> None:
    process = tmp_path / "42"
    for folder in ("fd", "fdinfo", "ns"):
        (process / folder).mkdir(parents=True)
    (process / "comm").write_text("openvpn\n")
    (process / "fd/3").symlink_to("/dev/net/tun")
    (process / "fd/4").symlink_to("/dev/vhost-net")
    (process / "fd/5").symlink_to("/dev/net/tun")  # vanished: no fdinfo
    (process / "fdinfo/3").write_text("pos:\t0\niff:\ttun0\n")
    (tmp_path / "43").mkdir()  # a process that ended meanwhile
    monkeypatch.setattr(system, "PROC", tmp_path)
    assert system.read_owners() == {"tun0": [Owner(42, "openvpn", True, 0)]}


def test_text(machine: Machine, capsys) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == """\
tap0 (tap): on, served
  owner   qemu-system-x86 (4711) with vhost-net
  qdisc   fq_codel
  ring    fill 312 of 1000; stops at 976, wakes at 488
  stops   1204, wakes 1204, stalls 0, longest stop 12.3 ms
  drops   0 at a full ring while on, 17 in all

tun0 (tun): on, noqueue: nothing to stop
  owner   nobody
  qdisc   noqueue
  ring    fill 0 of 500
  stops   1204, wakes 1204, stalls 0, longest stop 12.3 ms
  drops   0 at a full ring while on, 0 in all
"""


@pytest.mark.parametrize(
    ("state", "on", "reason", "text"),
    [
        ("served", True, "", "on, served"),
        ("off", False, "", "off"),
        ("down", True, "", "on, link down"),
        ("upstream", True, "", "on, served by its application (IFF_BACKPRESSURE)"),
        ("upstream", False, "", "off, served by its application (IFF_BACKPRESSURE)"),
        ("unread", True, "", "on, no reader yet"),
        ("refused", True, "odd driver", "on, refused: odd driver"),
    ],
)
def test_every_state_has_words(
    machine: Machine, capsys, state: str, on: bool, reason: str, text: str
) -> None:
    machine.devices[0] = replace(DEVICE0, state=state, on=on, reason=reason)
    assert main(["status", "tap0"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"tap0 (tap): {text}"


def test_lockless_queue_is_said(machine: Machine, capsys) -> None:
    machine.queues[0] = replace(QUEUE0, state="lockless")
    assert main(["status", "tap0"]) == 0
    assert "lockless qdisc: as stock" in capsys.readouterr().out


def test_stalled_queue_is_said(machine: Machine, capsys) -> None:
    machine.queues[0] = replace(QUEUE0, state="stalled")
    assert main(["status", "tap0"]) == 0
    assert "stalled: the reader makes no room" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "line", "text"),
    [
        ({}, "", "drops at a full ring; sluice would stop the queue"),
        ({"up": False}, "", "link down; sluice would serve it once it is up"),
        ({"qdisc": "noqueue"}, "", "noqueue: sluice would have nothing to stop"),
        ({"upstream": True}, "", "served by its application; sluice would leave"),
        ({}, "tap? off", "; sluice would leave it alone"),
    ],
)
def test_without_the_module_what_it_would_change(
    machine: Machine, capsys, change: dict, line: str, text: str
) -> None:
    machine.loaded = False
    machine.links = [replace(TAP0, **change)]
    config.PATH.write_text(line + "\n")
    assert main(["status"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("module: not loaded")
    assert text in " ".join(said.split())


def test_no_device(machine: Machine, capsys) -> None:
    machine.links = []
    assert main(["status"]) == 0
    assert capsys.readouterr().out == "no tun or tap device in this namespace\n"


def test_json(machine: Machine, capsys) -> None:
    assert main(["--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["module"] == {"loaded": True, "version": "0.1.0"}
    tap0 = answer["devices"][0]
    assert tap0["name"] == "tap0" and tap0["state"] == "served"
    assert (tap0["stops"], tap0["wakes"], tap0["fill"]) == (1204, 1204, 312)
    assert tap0["queues"][0]["limit"] == 976
    assert tap0["owners"][0]["pid"] == 4711


def test_all_namespaces_with_headings(machine: Machine, capsys) -> None:
    machine.namespaces = {"": 1, "here": 1, "red": 2}
    assert main(["--all-netns"]) == 0
    said = capsys.readouterr().out
    assert said.index("this netns") < said.index("netns red")
    assert "netns here" not in said  # the same as this one
    assert said.count("tap0 (tap)") == 2


def test_namespace_that_vanished_is_left_out_of_all(
    machine: Machine, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(system, "read_netns_names", lambda: ["gone"])
    assert main(["--all-netns"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["--netns", "gone"]) == 1
    assert "netns gone: there is none" in capsys.readouterr().err


def test_device_that_vanishes_between_two_looks_is_left_out(
    machine: Machine, capsys
) -> None:
    machine.devices = machine.devices[1:]  # rtnetlink still had it
    assert main(["status"]) == 0
    assert "tap0" not in capsys.readouterr().out


def test_text_stays_under_80_columns(machine: Machine, capsys) -> None:
    name = "abcdefghijklmno"
    machine.links = [replace(TAP0, name=name)]
    machine.devices = [
        replace(DEVICE0, ifname=name, state="refused", reason="private " * 20)
    ]
    huge = 2**64 - 1
    machine.queues = [
        replace(
            QUEUE0,
            id=number,
            stops=huge,
            wakes_timer=huge,
            stalls=huge,
            drops=huge,
            longest_stop_ns=huge,
        )
        for number in range(4)
    ]
    machine.owners = {
        name: [Owner(4000000 + n, "x" * 15, True, 1) for n in range(9)]
    }
    for loaded in (True, False):
        machine.loaded = loaded
        assert main(["status"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(len(line) for line in lines) < 80


def test_no_color_in_a_pipe(machine: Machine, capsys) -> None:
    assert main(["status"]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(("variable", "colored"), [("", True), ("1", False)])
def test_color_on_a_terminal_unless_no_color(
    machine: Machine, capsys, monkeypatch, variable: str, colored: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", variable)
    assert main(["status"]) == 0
    assert ("\x1b" in capsys.readouterr().out) is colored


HOSTILE = "\x1b[2J\x07\x1b]0;\udcff"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("command", ["status", "off *", "doctor", "metrics"])
def test_names_do_not_command_the_terminal(
    machine: Machine, capsys, monkeypatch, command: str, terminal: bool
) -> None:
    """Of devices and processes: anybody may choose them."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    machine.links = [replace(TAP0, name=HOSTILE)]
    machine.devices = [replace(DEVICE0, ifname=HOSTILE, state="refused", reason="x")]
    machine.owners = {HOSTILE: [Owner(1, HOSTILE, False, 1)]}
    main(command.split())
    said = capsys.readouterr()
    for text in (said.out, said.err):
        text.encode()
        assert "\x07" not in text and "\x1b[2J" not in text and "\x1b]" not in text


def test_name_that_is_no_text_is_kept() -> None:
    named = [("IFLA_IFNAME", b"t\xff"), *RECORDED["attrs"][1:]]
    link = parse_link({**RECORDED, "attrs": named}, 1)
    assert link is not None and os.fsencode(link.name) == b"t\xff"


def test_interrupted_dump_is_asked_for_again(monkeypatch) -> None:
    monkeypatch.setattr(netlink.time, "sleep", lambda _: None)
    told, flagged = (
        [{"name": "tap0", "header": {"flags": flags}}]
        for flags in (0, netlink.NLM_F_DUMP_INTR)
    )
    answers = [exceptions.NetlinkDumpInterrupted(), flagged] * 2 + [told]

    def dump() -> list[dict]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert netlink.uninterrupted(dump) == told and not answers
    answers += [exceptions.NetlinkDumpInterrupted()] * (netlink.DUMP_TRIES + 1)
    with pytest.raises(exceptions.NetlinkDumpInterrupted):
        netlink.uninterrupted(dump)
