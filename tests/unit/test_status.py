# SPDX-License-Identifier: GPL-2.0-or-later
"""What status says, in words and in JSON, and where that comes from."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice import config, devices, status, system
from sluice.cli import main
from sluice.system import Owner, parse_iff, parse_tun_flags
from tests.unit._machine import DEVICE0, QDISC0, QEMU, QUEUE0, TAP0, TARGET_US, Machine


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


def test_table(machine: Machine, run) -> None:
    assert run("").out == """\
DEVICE STATE   QDISC    FILL                       WAIT STOPS STALLS DROPS QDROPS OWNER
tap0   on      fq_codel 312 of 1000, stops at 976 1.6ms  1204      0    17     34 \
qemu-system-x86
tun0   noqueue noqueue  0 of 500                      0  1204      0     0      - -
tun0: noqueue: nothing to stop, a full ring drops; run: sluice on --qdisc
  fq_codel tun0
"""


def test_details(machine: Machine, run) -> None:
    by_rule, by_hand = ("on", "stall-ms"), ("limit",)
    machine.devices[0] = replace(
        DEVICE0, stall_ms=900, limit=7, rule="/etc/sluice.conf:3", qdisc="fq_codel",
        by_rule=by_rule, by_hand=by_hand, low_percent=60,
    )
    assert run("status tap0").out == f"""\
tap0 (tap): on, served
  owner    qemu-system-x86 (4711) with vhost-net
  qdisc    fq_codel; backlog 12 packets, 18000 bytes; 34 drops, 5 ECN marks, 0
           overlimits since attached
  ring     312 of 1000 packets, stops at 976, wakes at 488
  reader   about 200k packets/s while stopped
  wait     1.6ms for a packet that is sent now, at the reader's pace while
           stopped
  stops    1204, wakes 1204, stalls 0, longest stop 12.3 ms
  drops    0 at a full ring while on, 17 by the driver in all
  rates    0 packets/s, 0 stops/s, 0 stalls/s, 0 drops/s at the ring; in the
           qdisc 0 drops/s, 0 ECN marks/s, 0 overlimits/s
  settings on (/etc/sluice.conf:3)
           stall-ms 900 ms (/etc/sluice.conf:3)
           low-percent 60 % (module parameter)
           limit 7 packets (by hand)
           target-us {TARGET_US} us (default)
           rule /etc/sluice.conf:3, qdisc fq_codel in place of noqueue
"""


def test_details_of_several_queues_and_owners(machine: Machine, run) -> None:
    second = replace(QUEUE0, id=1, fill=88, rescued=2, reader_ns=15000,
                     longest_stop_ns=250_000_000)
    machine.links[0] = replace(TAP0, queues=2)
    machine.queues = [QUEUE0, second]
    other = replace(QEMU, pid=4712, command="reader", vhost=False)
    machine.owners["tap0"] = [QEMU, other]
    machine.qdiscs[2] = replace(QDISC0, marks=None)
    machine.devices[0] = replace(DEVICE0, on=False, state="off")
    assert run("status tap0").out.startswith("""\
tap0 (tap): off
  owner    qemu-system-x86 (4711) with vhost-net, reader (4712)
  qdisc    fq_codel; backlog 12 packets, 18000 bytes; 34 drops, 0 overlimits
           since attached
  ring     400 of 2000 packets in 2 queues
         0 open, 312 of 1000 packets; 1204 stops, 0 stalls, 0 drops
         1 open, 88 of 1000 packets; 1204 stops, 0 stalls, 0 drops
  reader   about 133k packets/s each while stopped
  wait     1.5ms for a packet that is sent now, at the reader's pace while
           stopped
  stops    2408, wakes 2408, stalls 0, rescued 2, longest stop 250.0 ms
  drops    0 at a full ring while on, 17 by the driver in all
  rates    0 packets/s, 0 stops/s, 0 stalls/s, 0 drops/s at the ring; in the
           qdisc 0 drops/s, 0 overlimits/s
  settings off (module parameter)
""")
    row = run("").out.splitlines()[1]
    assert row.startswith("tap0   off     fq_codel queue 0: 312 of 1000 1.5ms")
    assert row.endswith("qemu-system-x86 +1")


def test_each_rate_is_that_of_its_own_count(machine, run, monkeypatch) -> None:
    start = time.monotonic()

    def sleep(_: float) -> None:
        monkeypatch.setattr(time, "monotonic", lambda: start + 2)
        machine.links[0] = replace(TAP0, tx_packets=TAP0.tx_packets + 20)
        machine.devices[0] = replace(DEVICE0, tx_dropped=DEVICE0.tx_dropped + 80)
        machine.queues[0] = replace(QUEUE0, stops=QUEUE0.stops + 40, stalls=60)
        machine.qdiscs[2] = replace(
            QDISC0, drops=QDISC0.drops + 100, marks=5 + 120, overlimits=140
        )

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: start)
    said = " ".join(run("status tap0").out.split())
    assert (
        "rates 10 packets/s, 20 stops/s, 30 stalls/s, 40 drops/s at the ring; in the "
        "qdisc 50 drops/s, 60 ECN marks/s, 70 overlimits/s "
    ) in said
    (tun0,) = json.loads(run("status --json tun0").out)["devices"]
    assert set(tun0["per_second"].values()) == {0}


@pytest.mark.parametrize(("states", "word", "why"), [
    (("open", "open"), "on", "served"),
    (("open", "stopped"), "stopped", "served"),
    (("stopped", "stalled"), "stalled", "stalled: the reader makes no room"),
    (("open", "lockless"), "lockless", "lockless qdisc: not stopped"),
    (("open", "unread"), "on", "served"),
    (("unread", "unread"), "unread", "no reader now"),
])
def test_state_of_a_device_follows_from_those_of_its_queues(
    machine: Machine, run, states: tuple[str, str], word: str, why: str
) -> None:
    machine.queues = [replace(QUEUE0, id=n, state=one) for n, one in enumerate(states)]
    assert run("").out.splitlines()[1].split()[:2] == ["tap0", word]
    assert run("status tap0").out.startswith(f"tap0 (tap): on, {why}")


STALLED = replace(QUEUE0, state="stalled", fill=997, limit=4, low=2, stalls=3)


def test_what_is_wrong_is_said_below_the_table(machine: Machine, run) -> None:
    machine.links = [replace(TAP0, ifindex=n, name=f"tap{n}") for n in range(6)]
    machine.devices = [replace(DEVICE0, ifindex=n, ifname=f"tap{n}") for n in range(6)]
    machine.queues = [replace(STALLED, ifindex=n) for n in range(4)]
    machine.queues += [replace(QUEUE0, ifindex=4, drops=3), replace(QUEUE0, ifindex=5)]
    machine.owners = {"tap0": [QEMU]}
    head, *lines = run("").out.splitlines()
    assert "997 of 1000, stops at 4" in lines[0] and len(lines) > 6
    said = " ".join(" ".join(lines[6:]).split())
    rest = "reads too little, a full ring drops; see: sluice doctor"
    assert said == (
        f"tap0: stalled: qemu-system-x86 {rest} "
        f"tap1, tap2, tap3: stalled: its reader {rest} "
        "tap4: packets were lost at a full ring while on; see: sluice doctor"
    )


def test_of_several_queues_the_worst_is_shown(machine: Machine, run) -> None:
    stalled = replace(STALLED, id=2, fill=800)
    machine.queues = [QUEUE0, replace(QUEUE0, id=1, fill=900), stalled]
    assert "queue 2: 800 of 1000, stops at 4" in run("").out
    machine.queues.pop()
    assert "queue 1: 900 of 1000, stops at 976" in run("").out
    said = run("tap0").out
    for queue, fill in ((0, 312), (1, 900)):
        assert f"         {queue} open, {fill} of 1000 packets, stops at 976, " in said


def test_waiting_time_is_packets_over_packets_per_second(machine, run) -> None:
    machine.queues[0] = replace(QUEUE0, reader_ns=2_000_000)
    machine.queues[1] = replace(machine.queues[1], fill=5, reader_ns=1_000_000)
    answer = json.loads(run("--json").out)
    assert answer["module"] == {"loaded": True, "version": "0.1.0"}
    first, second = answer["devices"]
    assert (first["name"], first["stops"], first["wakes"]) == ("tap0", 1204, 1204)
    assert first["waiting_seconds"] == pytest.approx((312 + 12) * 0.002)
    assert first["queues"][0]["limit"] == 976 and first["owners"][0]["pid"] == 4711
    assert second["waiting_seconds"] is None, "the pace is assumed"
    machine.loaded = False
    assert json.loads(run("--json").out)["devices"][0]["waiting_seconds"] is None


def test_waiting_time_is_short() -> None:
    times = (None, 0, 3e-6, 1.62e-3, 0.25, 0.9999, 75)
    texts = ["-", "0", "3us", "1.6ms", "250ms", "1.0s", "75s"]
    assert [status.format_seconds(seconds) for seconds in times] == texts


def test_pace_of_a_reader_that_was_not_measured(machine: Machine, run) -> None:
    for state in ("open", "stalled"):
        machine.queues[0] = replace(QUEUE0, state=state, reader_ns=1_000_000)
        assert "pace not known yet, 1000 packets/s assumed" in run("status tap0").out
    machine.queues[0] = replace(QUEUE0, state="stalled")
    assert "pace not known yet" not in run("status tap0").out


@pytest.mark.parametrize("columns", [40, 60, 80, 140])
@pytest.mark.parametrize("loaded", [True, False])
def test_no_line_is_wider_than_the_terminal(
    machine: Machine, run, monkeypatch, plain_terminal, columns: int, loaded: bool
) -> None:
    """With the longest names and numbers there are, of several namespaces."""
    monkeypatch.setenv("COLUMNS", str(columns))
    name, huge = "averylongname01", 2**64 - 1
    counts = dict.fromkeys(("stops", "wakes_timer", "stalls", "longest_stop_ns"), huge)
    machine.loaded, machine.namespaces = loaded, {"": 1, "near": 2}
    machine.links[0] = replace(TAP0, name=name, tx_dropped=huge)
    device = replace(DEVICE0, ifname=name, tx_dropped=huge, state="refused")
    machine.devices[0] = replace(device, reason="private " * 20)
    machine.queues = [replace(QUEUE0, id=n, drops=huge, **counts) for n in range(4)]
    machine.owners = {name: [Owner(4000000 + n, "x" * 15, True, 1) for n in range(9)]}
    for words in ([], [name]):
        lines = run(["status", *words]).out.splitlines()
        assert max(map(len, lines)) <= columns, lines
        start = "module:" if not loaded else name if words else "DEVICE"
        assert lines[0].startswith(start)


@pytest.mark.parametrize(("state", "on", "reason", "text"), [
    ("served", True, "", "on, served"),
    ("off", False, "", "off"),
    ("down", True, "", "on, link down"),
    ("upstream", True, "", "on, served by the driver (IFF_BACKPRESSURE)"),
    ("upstream", False, "", "off, served by the driver (IFF_BACKPRESSURE)"),
    ("unread", True, "", "on, no reader yet"),
    ("refused", True, "odd driver", "on, refused: odd driver"),
])
def test_every_state_has_words(
    machine: Machine, run, state: str, on: bool, reason: str, text: str
) -> None:
    machine.devices[0] = replace(DEVICE0, state=state, on=on, reason=reason)
    assert run("status tap0").out.splitlines()[0] == f"tap0 (tap): {text}"


@pytest.mark.parametrize(("change", "line", "text"), [
    ({}, "", "drops at a full ring; sluice would stop the queue"),
    ({"up": False}, "", "link down; sluice would serve it once it is up"),
    ({"qdisc": "noqueue"}, "", "noqueue: sluice would have nothing to stop"),
    ({"upstream": True}, "", "served by the driver; sluice would leave"),
    ({}, "tap? off", "; sluice would leave it alone"),
])
def test_without_the_module_what_it_would_change(
    machine: Machine, run, monkeypatch, change: dict, line: str, text: str
) -> None:
    machine.loaded = False
    machine.links = [replace(TAP0, **change)]
    config.PATH.write_text(line + "\n")
    said = run("status tap0").out
    assert said.startswith("module: not loaded, stock behaviour")
    assert text in " ".join(said.split())
    uname = SimpleNamespace(version="#1 SMP PREEMPT_RT Debian")
    monkeypatch.setattr(os, "uname", lambda: uname)
    assert run("").out.startswith("module: not loaded, as this kernel is PREEMPT_RT")


def test_which_devices_are_shown(machine: Machine, run) -> None:
    machine.namespaces = {"": 1, "red": 2, "4711": 3}  # the last has no name
    head, *rows = run("").out.splitlines()[:7]
    assert head.split()[:2] == ["DEVICE", "NETNS"]
    assert [row.split()[1] for row in rows[2:]] == ["red", "red", "4711", "4711"]
    found = json.loads(run("--netns red --json").out)["devices"]
    assert {one["netns"] for one in found} == {"red"} and len(found) == 2
    machine.devices = machine.devices[1:]  # rtnetlink still had it
    assert "tap0" not in run("").out
    machine.links, machine.namespaces = [], {"": 1, "red": 2}
    assert run("").out == "no tun or tap device in 2 network namespaces\n"
    said = run("status --netns red").out
    assert said == "no tun or tap device in network namespace red\n"


def test_namespaces_that_cannot_be_entered(machine: Machine, run) -> None:
    machine.namespaces = {"": 1, "red": 2, "blue": 3}
    machine.denied = {"red", "blue"}
    said = run("")
    assert said.out.endswith("\n2 network namespaces not shown; run it as root\n")
    assert not said.err
    assert json.loads(run("--json").out)["hidden_namespaces"] == 2
    run("--netns red", 4)
    machine.namespaces = {"": 1, "odd": 2}
    machine.stale = {"odd"}
    said = run("", 1)
    assert "tap0" in said.out and said.err.startswith("sluice: netns odd: cannot be")
    assert "netns gone: not in /run/netns" in run("--netns gone", 1).err


@pytest.mark.parametrize(
    ("terminal", "no_color", "colored"),
    [(True, "", True), (True, "1", False), (False, "", False)],
)
def test_color_on_a_terminal_unless_no_color(
    machine: Machine, run, monkeypatch, terminal, no_color, colored
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    machine.queues[0] = STALLED
    said = run("status").out
    assert ("\x1b" in said) is colored
    red = re.findall(r"\x1b\[31m(.*?)\x1b\[0m", said.splitlines()[1])
    assert red == (["stalled", "3", "17"] if colored else [])


HOSTILE = "\x1b[2J\x07\x1b]0;\udcff"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(
    "command",
    ["status", "status *", "off *", "off --now *", "doctor", "metrics"],
)
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
    assert "[2J" in said.out + said.err, "the name is not shown"


# Devices


def seen(machine: Machine) -> devices.View:
    (view,) = [one for one in devices.read_machine().views if one.name == "tap0"]
    return view


def test_counter_that_began_again_has_no_rate() -> None:
    before, now = {"a": 10, "b": 10}, {"a": 4, "b": 16}
    assert devices.per_second(before, now, 2.0) == {"a": 0, "b": 3}
    assert devices.per_second(before, now, 0.0) == {"a": 0, "b": 0}


def test_without_the_module_its_counters_are_unknown_and_not_zero(
    machine: Machine, run
) -> None:
    machine.loaded = False
    view = seen(machine)
    assert (view.total("stops"), view.wakes, view.on) == (None, None, None)
    tap0 = json.loads(run("--json").out)["devices"][0]
    assert (tap0["stops"], tap0["wakes"], tap0["fill"]) == (None, None, None)
    row = run("").out.splitlines()[2].split()
    assert row[:9] == "tap0 stock fq_codel 1000 slots - - - 17".split()


def test_queues_and_ring_are_those_that_the_module_sees(machine: Machine) -> None:
    machine.links[0] = replace(TAP0, queues=8, ring=700)
    machine.devices[0] = replace(DEVICE0, queues=3)
    machine.queues = [QUEUE0, replace(QUEUE0, id=1, ring=2000)]
    assert (seen(machine).queue_count, seen(machine).ring) == (3, 2000)
    machine.queues = []
    assert seen(machine).ring == 700
    machine.loaded = False
    assert (seen(machine).queue_count, seen(machine).ring) == (8, 700)


@pytest.mark.parametrize(("flag", "state", "upstream"), [
    (None, "upstream", True),  # without sysfs the module knows
    (None, "served", None),
    (False, "served", False),
    (True, "off", True),
])
def test_who_knows_that_the_driver_serves(machine, flag, state, upstream) -> None:
    machine.links[0] = replace(TAP0, upstream=flag)
    machine.devices[0] = replace(DEVICE0, state=state)
    assert seen(machine).upstream is upstream
