# SPDX-License-Identifier: GPL-2.0-or-later
"""bench: what it makes of recorded loads, and its refusals."""

from __future__ import annotations

import contextlib
import errno
import functools
import ipaddress
import json
import os
import signal
import socket
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from sluice import rtnl, system
from sluice.bench import command as bench
from sluice.bench import plot, testbed
from sluice.bench.command import Machine, Measured, Summary, format_bench
from sluice.bench.command import summarise, verdict
from sluice.bench.plot import Bar, Chart
from sluice.bench.testbed import QDISC, Load, child
from sluice.cli import main
from sluice.errors import NetlinkError, SluiceError, Unsuitable
from sluice.netlink import Device
from tests.unit._machine import DEVICE0

UDP = Load(3000, 1000, 1_000_000, 1.0, 50, [40.0, 41.0, 70.0])
TCP = Load(0, 800, 2_000_000, 1.0, 50, [10.0] * 50)
MACHINE = Machine("6.12.1", 4, "0.1.0", 3, 2.0, 50)


def measured(lost_by_sluice: int = 0, lost_by_stock: int = 2000) -> list[Measured]:
    losses = {"stock": lost_by_stock, "sluice": lost_by_sluice}
    loads = {"udp": UDP, "tcp": TCP}
    return [
        Measured(variant, load, losses[variant] if load == "udp" else 0, result)
        for _ in range(3)
        for variant in bench.VARIANTS
        for load, result in loads.items()
    ]


def test_rounds_are_summed_and_their_median_taken() -> None:
    first = summarise(measured())[0]
    assert (first.variant, first.load, first.mbit) == ("stock", "udp", 8.0)
    assert (first.sent, first.received, first.lost) == (9000, 3000, 6000)
    assert (first.probes, first.probes_back) == (150, 9)
    assert (first.ping_ms, first.ping_ms_95) == (41.0, 70.0)


def test_pings_that_never_came_back_have_no_time() -> None:
    none = Load(1, 1, 1000, 1.0, 50, [])
    summary = summarise([Measured(v, x, 0, none) for v in bench.VARIANTS for x in
                         bench.LOADS])[0]
    assert summary.ping_ms is None
    assert bench._ping(summary).text == "0 of 50 back"


@pytest.mark.parametrize(
    ("sluice", "stock", "status", "text"),
    [
        (0, 7, 0, "sluice lost nothing at the ring, stock 21 packets"),
        (0, 0, 0, "stock lost nothing either"),
        (1, 7, 1, "sluice lost 3 packets at the ring"),
    ],
)
def test_verdict(sluice: int, stock: int, status: int, text: str) -> None:
    code, said = verdict(summarise(measured(sluice, stock)))
    assert code == status and said.startswith(text)


def huge() -> list[Summary]:
    """Numbers as wide as they become."""
    load = Load(99_999_999, 9_999_999, 10**13, 1.0, 999, [12345.6] * 999)
    return summarise([Measured(v, x, 99_999_999, load) for v in bench.VARIANTS
                      for x in bench.LOADS])


@pytest.mark.parametrize("summaries", [summarise(measured()), huge()])
def test_text_fits_80_columns(summaries: list[Summary], monkeypatch) -> None:
    for unicode in (True, False):
        monkeypatch.setattr(bench, "_writes_unicode", lambda it=unicode: it)
        lines = [str(x) for x in format_bench(MACHINE, summaries)]
        assert max(len(line) for line in lines) < 80, max(lines, key=len)
        assert unicode or all(line.isascii() for line in lines)


def test_text_tells_every_figure_and_its_machine(monkeypatch) -> None:
    monkeypatch.setattr(bench, "_writes_unicode", lambda: False)
    lines = [str(x).strip() for x in format_bench(MACHINE, summarise(measured(1)))]
    assert lines[:2] == [
        "Linux 6.12.1, 4 CPUs, sluice 0.1.0",
        "3 rounds of 2 s, in turn; the reader works 50 us for each packet",
    ]
    told = {}
    for title, stock, sluice in zip(lines, lines[1:], lines[2:]):
        if stock.startswith("stock "):
            told[title] = [line.rpartition("  ")[2] for line in (stock, sluice)]
    assert told == {
        "UDP flood: received": ["8 Mbit/s (8 to 8)"] * 2,
        "UDP flood: lost at the ring": ["6000 of 9000 packets", "3 of 9000 packets"],
        "UDP flood: ping under load":
            ["41.0 ms, 95 %: 70.0 ms, 9 of 150 back"] * 2,
        "TCP, one stream: received": ["16 Mbit/s (16 to 16)"] * 2,
        "TCP, one stream: lost at the ring": ["0 packets"] * 2,
        "TCP, one stream: ping under load":
            ["10.0 ms, 95 %: 10.0 ms, 150 of 150 back"] * 2,
    }
    bars = [line.count("#") for line in lines if "of 9000" in line]
    assert bars == [plot.BAR_WIDTH, 1]
    assert lines[-1] == "sluice lost 3 packets at the ring; see: sluice doctor"


@pytest.mark.parametrize(
    ("mbit", "text"),
    [(0.05, "0.05"), (9.876, "9.88"), (99.94, "99.9"), (99.96, "100"), (999.6, "1000"),
     (1234.5, "1234"), (48765.4, "48765")],
)
def test_rate_of_a_fast_machine_is_no_power_of_ten(mbit: float, text: str) -> None:
    assert bench.format_rate(mbit) == text


def test_bars_are_never_blank_for_something() -> None:
    assert plot.format_bar(0, 4) == "    " and plot.format_bar(1, 4) == "████"
    assert plot.format_bar(0.0001, 4) == "▏   " and plot.format_bar(0.5, 3) == "█▌ "
    assert plot.format_bar(0.0001, 4, unicode=False) == "#   "
    nothing = Chart("lost", (Bar("stock", 0, "0"), Bar("sluice", 0, "0")))
    assert [nothing.share(bar) for bar in nothing.bars] == [0, 0]


def test_svg_is_whole_and_nothing_leaves_it() -> None:
    charts = bench.charts(huge())
    root = ElementTree.fromstring(plot.format_svg("a <b> & c", charts, ["note"]))
    width = plot.WIDTH + 10
    rectangles = root.findall("{http://www.w3.org/2000/svg}rect")[1:]
    assert len(rectangles) == 12
    for one in rectangles:
        assert float(one.get("x")) + float(one.get("width")) <= width - plot.RIGHT
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "a <b> & c" and "note" in texts


@pytest.mark.parametrize("summaries", [summarise(measured()), huge()])
def test_nothing_in_the_picture_covers_another(summaries: list[Summary]) -> None:
    svg = plot.format_svg("title", bench.charts(summaries), ["one", "two"])
    root = ElementTree.fromstring(svg)
    name = "{http://www.w3.org/2000/svg}"
    left, top, width, height = map(float, root.get("viewBox").split())
    assert (float(root.get("width")), float(root.get("height"))) == (width, height)
    texts = [(float(t.get("x")), float(t.get("y"))) for t in root.iter(f"{name}text")]
    ys = sorted({y for _, y in texts})
    assert top + 13 <= ys[0] and ys[-1] < height, "13 pixels are a line"
    assert min(b - a for a, b in zip(ys, ys[1:])) >= 13
    assert len(ys) == 1 + 6 * 3 + 2, "a title, six charts, two notes"
    bars = root.findall(f"{name}rect")[1:]
    for bar in bars:
        x, y, long, high = (
            float(bar.get(one)) for one in ("x", "y", "width", "height")
        )
        beside = sorted(at for at, baseline in texts if y < baseline < y + high)
        label, value = beside
        assert label < x and x + long < value and left <= label


@dataclass
class Bed:
    """A testbed that measures nothing."""

    loads: list[tuple[bool, str]] = field(default_factory=list)
    on: bool = False
    lost: int = 0

    def switch(self, on: bool) -> None:
        self.on = on

    def read_drops(self) -> int:
        return self.lost


@pytest.fixture
def bed(monkeypatch) -> Bed:
    found = Bed()

    @contextlib.contextmanager
    def of(work_us: int) -> Iterator[Bed]:
        yield found

    def run_load(_: Bed, load: str, seconds: float) -> Load:
        found.loads.append((found.on, load))
        found.lost += 0 if found.on else 5
        return UDP if load == "udp" else TCP

    monkeypatch.setattr(testbed, "testbed", of)
    monkeypatch.setattr(testbed, "run_load", run_load)
    monkeypatch.setattr(system, "is_root", lambda: True)
    monkeypatch.setattr(system, "has_tun", lambda: True)
    monkeypatch.setattr(system, "read_module_version", lambda: "0.1.0")
    return found


def test_command_measures_in_turn(bed: Bed, capsys) -> None:
    assert main(["bench", "--rounds", "2"]) == 0
    said = capsys.readouterr()
    turn = [(False, "udp"), (False, "tcp"), (True, "udp"), (True, "tcp")]
    assert bed.loads == 2 * turn
    assert "\x1b" not in said.out and said.err == ""
    assert said.out.endswith("sluice lost nothing at the ring, stock 20 packets\n")


def test_a_loss_with_sluice_is_a_failure(bed: Bed, capsys, monkeypatch) -> None:
    monkeypatch.setattr(Bed, "switch", lambda found, on: setattr(found, "on", not on))
    for more in ([], ["--json"]):
        assert main(["bench", "--rounds", "1", *more]) == 1
        assert "sluice lost 10 packets at the ring" in capsys.readouterr().out


def test_progress_is_for_a_terminal_and_does_not_stay(bed, capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["bench", "--rounds", "1"]) == 0
    shown = capsys.readouterr().err
    assert "round 1 of 1: sluice, TCP, one stream" in shown
    assert shown.endswith("\r\x1b[K") and "\n" not in shown


def test_json_and_picture(bed: Bed, capsys, tmp_path) -> None:
    path = tmp_path / "b.svg"
    assert main(["bench", "--json", "--rounds", "1", "--svg", str(path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["lost"] for one in answer["results"]] == [5, 0, 5, 0]
    machine = answer["machine"]
    assert (machine["rounds"], machine["seconds"], machine["work_us"]) == (1, 2, 50)
    assert (machine["module"], machine["cpus"]) == ("0.1.0", os.cpu_count())
    assert path.read_text().startswith("<svg ")


@pytest.mark.parametrize(
    ("name", "answer", "text", "code"),
    [
        ("is_root", False, "run it as root", 4),
        ("has_tun", False, "run: modprobe tun", 3),
        ("read_module_version", "", "see: sluice doctor", 3),
    ],
)
def test_machine_that_is_not_suitable(
    bed: Bed, capsys, monkeypatch, name, answer, text, code
) -> None:
    monkeypatch.setattr(system, name, lambda: answer)
    assert main(["bench"]) == code
    said = capsys.readouterr()
    assert said.out == "" and text in said.err and said.err.count("\n") == 1
    assert not bed.loads


def test_picture_that_cannot_be_written_is_said_first(bed, capsys, tmp_path) -> None:
    assert main(["bench", "--svg", str(tmp_path / "none" / "b.svg")]) == 1
    assert capsys.readouterr().err.endswith("choose another place\n")
    assert not bed.loads


def test_nothing_received_is_no_result(bed, capsys, monkeypatch) -> None:
    nothing = Load(100, 0, 0, 0.0, 50, [])
    monkeypatch.setattr(testbed, "run_load", lambda *_: nothing)
    assert main(["bench"]) == 1
    assert "stock, UDP flood: nothing was received" in capsys.readouterr().err


def test_child_answers_or_says_why_not() -> None:
    with child(lambda: {"a": 1}) as one:
        assert one.answer(5) == {"a": 1}
    with child(lambda: 1 // 0) as one:
        with pytest.raises(SluiceError, match="ZeroDivisionError"):
            one.answer(5)
    with child(lambda: os.kill(os.getpid(), signal.SIGKILL)) as one:
        with pytest.raises(SluiceError, match="died"):
            one.answer(5)


def test_children_end_with_their_parent() -> None:
    """Even if it has no time to end them."""

    def parent() -> int:
        return testbed.Child(time.sleep, 600)._pid

    with child(parent) as one:
        grandchild = one.answer(5)
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{grandchild}") and time.monotonic() < deadline:
        with open(f"/proc/{grandchild}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] == "Z":
                break
        time.sleep(0.01)
    else:
        assert not os.path.exists(f"/proc/{grandchild}")


@pytest.fixture
def loopback(monkeypatch) -> testbed.Testbed:
    """Both ends on this machine, without a device between them and without root."""
    monkeypatch.setattr(system, "inside", lambda netns: contextlib.nullcontext())
    monkeypatch.setattr(testbed, "SO_RCVBUFFORCE", socket.SO_RCVBUF)
    own = ipaddress.ip_address("127.128.0.0") + os.getpid()  # others' tests have theirs
    end = testbed.End("lo", str(own), -1, 1)
    return testbed.Testbed(end, end)


def test_flood_is_counted_and_probes_come_back(loopback) -> None:
    load = testbed.run_load(loopback, "udp", 0.4)
    assert load.sent >= load.packets > 1 and load.bytes == 1000 * load.packets
    assert 0 < load.seconds < 20
    assert 0 < load.probes <= 20
    assert load.rtts_ms and 0 < min(load.rtts_ms) < 400


def test_stream_is_counted_in_bytes(loopback) -> None:
    load = testbed.run_load(loopback, "tcp", 0.4)
    assert load.sent == 0 and load.bytes > 65536 and 0 < load.seconds < 20
    assert 0 < load.probes <= 20 and load.rtts_ms


def test_nothing_received_is_told_after_a_short_wait(loopback, monkeypatch) -> None:
    monkeypatch.setitem(testbed.LOADS, "none", (socket.SOCK_DGRAM, lambda *_: 0))
    load = testbed.run_load(loopback, "none", 0.1)
    assert (load.sent, load.packets, load.bytes, load.seconds) == (0, 0, 0, 0)


def test_reader_forwards_both_ways_at_its_pace() -> None:
    with contextlib.ExitStack() as stack:
        near, one, far, other = (
            stack.enter_context(end)
            for _ in range(2)
            for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        )
        for end in (one, other):
            end.setblocking(False)
        work_ns = 5_000_000
        stack.enter_context(child(testbed.forward, one.fileno(), other.fileno(), work_ns))
        started = time.monotonic()
        for number in range(20):
            near.send(b"there %d" % number)
        assert [far.recv(99) for _ in range(20)] == [b"there %d" % n for n in range(20)]
        assert time.monotonic() - started >= 20 * work_ns / 1e9
        far.send(b"back")
        assert near.recv(99) == b"back"


def test_losses_are_those_at_both_rings(loopback, monkeypatch) -> None:
    lost = iter([3, 4])
    link = system.Link(1, "lo", "tun", True, QDISC, 500, 1, 0, 0, False)
    monkeypatch.setattr(
        system, "read_links", lambda _: [replace(link, tx_dropped=next(lost))]
    )
    assert loopback.read_drops() == 7


def test_child_that_does_not_answer_is_an_error(monkeypatch) -> None:
    monkeypatch.setattr(testbed, "GRACE_SECONDS", 0.1)
    with child(time.sleep, 60) as one:
        with pytest.raises(SluiceError, match="does not answer; run it again"):
            one.answer(0.1)


class Switch:
    """In place of a client: the module serves the device, or says why not."""

    def __init__(self, on: str = "served") -> None:
        self.states = {0: "off", 1: on}
        self.on = 1

    def __call__(self) -> Switch:
        return self

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def set_device(self, ifindex: int, on: int) -> None:
        self.on = on

    def device(self, ifindex: int) -> Device:
        reason = "layout not known" if self.states[self.on] == "unsupported" else ""
        return replace(DEVICE0, state=self.states[self.on], reason=reason)


def test_device_that_is_not_served_ends_the_bench(loopback, monkeypatch) -> None:
    switch = Switch()
    monkeypatch.setattr(testbed, "Client", switch)
    for on in (False, True):
        loopback.switch(on)
        assert switch.on == on
    monkeypatch.setattr(testbed, "Client", Switch(on="unsupported"))
    loopback.switch(False)
    with pytest.raises(SluiceError, match="^lo: layout not known; see: sluice doctor$"):
        loopback.switch(True)


@pytest.mark.parametrize(
    ("number", "error", "text"),
    [
        (errno.ENOENT, Unsuitable, "no qdisc fq_codel; run: modprobe sch_fq_codel"),
        (errno.EPERM, NetlinkError, "Operation not permitted"),
    ],
)
def test_device_without_its_qdisc_is_never_up(
    monkeypatch, tmp_path, number: int, error: type[Exception], text: str
) -> None:
    def attach(*_: object) -> None:
        raise NetlinkError(number)

    asked: list[str] = []
    monkeypatch.setattr(socket, "if_nametoindex", lambda name: 7)
    for name in ("set_ring", "add_address", "set_up"):
        note = functools.partial(lambda name, *_: asked.append(name), name)
        monkeypatch.setattr(rtnl, name, note)
    monkeypatch.setattr(testbed, "Path", lambda _: tmp_path / "disable_ipv6")
    monkeypatch.setattr(system, "attach_qdisc", attach)
    with pytest.raises(error, match=text):
        testbed._set_up("near0", "10.93.0.1")
    assert asked == ["set_ring", "add_address"]
    monkeypatch.setattr(system, "attach_qdisc", lambda *_: None)
    without_ipv6 = tmp_path / "none" / "disable_ipv6"
    monkeypatch.setattr(testbed, "Path", lambda _: without_ipv6)
    assert testbed._set_up("near0", "10.93.0.1") == 7
    assert asked[-1] == "set_up"
