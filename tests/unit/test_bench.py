# SPDX-License-Identifier: GPL-2.0-or-later
"""bench: what it makes of recorded loads, and its refusals."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
import socket
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from sluice import system
from sluice.bench import command as bench
from sluice.bench import testbed
from sluice.bench.command import Measured
from sluice.bench.command import summarise
from sluice.bench.testbed import Load, child
from sluice.errors import SluiceError
from sluice.netlink import Device
from tests.unit._machine import DEVICE0

UDP = Load(3000, 1000, 1_000_000, 1.0, 50, [40.0, 41.0, 70.0])
TCP = Load(0, 800, 2_000_000, 1.0, 50, [10.0] * 50)


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
    rates = [bench.format_rate(mbit) for mbit in (0.05, 9.876, 99.94, 99.96, 48765.4)]
    assert rates == ["0.05", "9.88", "99.9", "100", "48765"]


@pytest.mark.parametrize(("sluice", "stock", "status", "text"), [
    (0, 7, 0, "sluice lost nothing at the ring, stock 21 packets"),
    (0, 0, 0, "stock lost nothing either"),
    (1, 7, 1, "sluice lost 3 packets at the ring"),
])
def test_verdict(bed, run, monkeypatch, sluice, stock, status, text) -> None:
    monkeypatch.setattr(bench, "measure", lambda *_: measured(sluice, stock))
    for more in ([], ["--json"]):
        assert text in " ".join(run(["bench", *more], status).out.split())


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


def test_command_measures_in_turn(bed: Bed, run) -> None:
    said = run("bench --rounds 2")
    turn = [(False, "udp"), (False, "tcp"), (True, "udp"), (True, "tcp")]
    assert bed.loads == 2 * turn
    assert "\x1b" not in said.out and said.err == ""
    assert said.out.endswith("sluice lost nothing at the ring, stock 20 packets\n")


def test_json_and_picture(bed: Bed, run, tmp_path) -> None:
    path = tmp_path / "b.svg"
    answer = json.loads(run(["bench", "--json", "--rounds", "1", "--svg", str(path)]).out)
    assert [one["lost"] for one in answer["results"]] == [5, 0, 5, 0]
    machine = answer["machine"]
    assert (machine["rounds"], machine["seconds"], machine["work_us"]) == (1, 2, 50)
    assert (machine["module"], machine["cpus"]) == ("0.1.0", os.cpu_count())
    texts = [one.text for one in ElementTree.fromstring(path.read_text()).iter()]
    assert "UDP flood: lost at the ring" in texts


NOTHING = Load(100, 0, 0, 0.0, 50, [])


@pytest.mark.parametrize(("place", "name", "answer", "code", "text"), [
    (system, "is_root", False, 4, "run it as root"),
    (system, "has_tun", False, 3, "run: modprobe tun"),
    (system, "read_module_version", "", 3, "see: sluice doctor"),
    (testbed, "run_load", NOTHING, 1, "stock, UDP flood: nothing was received"),
    (os, "access", False, 1, "choose another place"),
])
def test_refusal_is_one_line(
    bed: Bed, run, monkeypatch, place, name, answer, code, text
) -> None:
    monkeypatch.setattr(place, name, lambda *_: answer)
    said = run("bench --svg /tmp/never-written.svg", code)
    assert said.out == "" and text in said.err and said.err.count("\n") == 1
    assert not bed.loads


def test_child_answers_or_says_why_not() -> None:
    with child(lambda: {"a": 1}) as one:
        assert one.answer(5) == {"a": 1}
    with child(lambda: 1 // 0) as one:
        with pytest.raises(SluiceError, match="ZeroDivisionError"):
            one.answer(5)
    with child(lambda: os.kill(os.getpid(), signal.SIGKILL)) as one:
        with pytest.raises(SluiceError, match="died"):
            one.answer(5)


@pytest.fixture
def loopback(monkeypatch) -> testbed.Testbed:
    """Both ends on this machine, without a device between them and without root."""
    monkeypatch.setattr(system, "inside", lambda netns: contextlib.nullcontext())
    monkeypatch.setattr(testbed, "SO_RCVBUFFORCE", socket.SO_RCVBUF)
    own = ipaddress.ip_address("127.128.0.0") + os.getpid()  # others' tests have theirs
    end = testbed.End("lo", str(own), -1, 1)
    return testbed.Testbed(end, end)


def test_loads_are_counted_and_probes_come_back(loopback) -> None:
    for kind in ("udp", "tcp"):
        load = testbed.run_load(loopback, kind, 0.4)
        assert load.bytes > 1000 and load.seconds > 0
        assert load.probes >= len(load.rtts_ms) > 0 and min(load.rtts_ms) > 0
        if kind == "udp":
            assert load.sent >= load.packets > 1 and load.bytes == 1000 * load.packets


@pytest.mark.parametrize(
    ("on", "state", "fails"),
    [(True, "served", False), (True, "refused", True), (False, "off", False),
     (False, "served", True)],
)
def test_device_that_is_not_switched_ends_the_bench(
    loopback, monkeypatch, on: bool, state: str, fails: bool
) -> None:
    class Client(contextlib.nullcontext):
        def set_device(self, ifindex: int, on: int) -> None:
            asked.append(on)

        def device(self, ifindex: int) -> Device:
            return replace(DEVICE0, state=state, reason="odd")

    asked: list[int] = []
    monkeypatch.setattr(testbed, "Client", lambda: Client(Client()))
    error = pytest.raises(SluiceError, match="^lo: odd; see: sluice doctor$")
    with error if fails else contextlib.nullcontext():
        loopback.switch(on)
    assert set(asked) == {on}
