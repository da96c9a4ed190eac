# SPDX-License-Identifier: GPL-2.0-or-later
"""The metrics in both formats, by the rules of their specifications and tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lab.setup import promtool
from sluice import VERSION, config, metrics
from sluice.devices import View
from sluice.netlink import DEVICE_STATES
from tests.unit._machine import QDISC0, QUEUE0, QUEUE1, TAP0, Machine

SAMPLE = re.compile(r'([a-z_]+)(?:{((?:[a-z_]+="[^"\n]*",?)*)})? (-?[0-9.e+-]+)')


def check_rules(text: str, openmetrics: bool = False) -> dict[str, str]:
    """Samples by name and labels; the text obeys the format's rules."""
    assert text.endswith("# EOF\n" if openmetrics else "\n") and "\n\n" not in text
    kind, family, seen, samples = "", "", set(), {}
    for line in text.removesuffix("# EOF\n").splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in seen, "families are not interleaved"
            seen.add(family)
        elif line.startswith("# "):
            assert line.split(" ")[1] in ("TYPE", "UNIT")
            assert line.split(" ")[2] == family
            kind = line.split(" ")[3] if " TYPE " in line else kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            suffix = "_total" if kind == "counter" and openmetrics else ""
            assert match[1] == family + suffix
            key = match[1] + (f"{{{match[2]}}}" if match[2] else "")
            assert key not in samples
            samples[key] = match[3].removesuffix(".0")
    return samples


def test_samples(machine: Machine, run) -> None:
    """All of a device: each value is another, so none is taken for the next."""
    machine.queues[0] = replace(QUEUE0, stalls=2, drops=3, rescued=4, wakes_other=6)
    machine.qdiscs[2] = replace(QDISC0, overlimits=7)
    samples = check_rules(run("metrics").out)
    device = 'device="tap0",netns=""'
    queue = f'{device},queue="0"'
    states = {
        f'sluice_device_state{{{device},state="{state}"}}': str(int(state == "served"))
        for state in DEVICE_STATES
    }
    assert {name: value for name, value in samples.items() if device in name} == {
        **states,
        f"sluice_device_drops_total{{{device}}}": "17",
        f"sluice_device_packets_total{{{device}}}": "5000",
        f"sluice_device_qdisc_drops_total{{{device}}}": "34",
        f"sluice_device_qdisc_marks_total{{{device}}}": "5",
        f"sluice_device_qdisc_overlimits_total{{{device}}}": "7",
        f"sluice_device_qdisc_backlog_packets{{{device}}}": "12",
        f"sluice_device_qdisc_backlog_bytes{{{device}}}": "18000",
        f"sluice_device_on{{{device}}}": "1",
        f"sluice_device_waiting_seconds{{{device}}}": "0.00162",
        f"sluice_queue_ring_packets{{{queue}}}": "1000",
        f"sluice_queue_fill_packets{{{queue}}}": "312",
        f"sluice_queue_limit_packets{{{queue}}}": "976",
        f"sluice_queue_low_packets{{{queue}}}": "488",
        f"sluice_queue_stops_total{{{queue}}}": "1204",
        f'sluice_queue_wakes_total{{{queue},by="timer"}}': "1203",
        f'sluice_queue_wakes_total{{{queue},by="other"}}': "6",
        f"sluice_queue_stalls_total{{{queue}}}": "2",
        f"sluice_queue_stalled{{{queue}}}": "0",
        f"sluice_queue_drops_total{{{queue}}}": "3",
        f"sluice_queue_rescues_total{{{queue}}}": "4",
        f"sluice_queue_reader_seconds{{{queue}}}": "5e-06",
        f"sluice_queue_longest_stop_seconds{{{queue}}}": "0.0123",
    }
    assert samples["sluice_module_loaded"] == "1"
    assert samples[f'sluice_build_info{{command="{VERSION}",module="0.1.0"}}'] == "1"


@pytest.mark.parametrize("loaded", [True, False])
def test_prometheus_reads_it(machine: Machine, run, loaded: bool) -> None:
    machine.loaded = loaded
    machine.namespaces = {"": 1, 'a"b': 2}
    text = run("metrics --openmetrics").out
    found = {one.name: one for one in text_string_to_metric_families(text)}
    samples = {(one.labels["device"], one.labels["netns"]): one.value
               for one in found["sluice_device_drops"].samples}
    assert samples["tap0", ""] == samples["tap0", 'a"b'] == 17
    assert ("sluice_queue_stops" in found) and found["sluice_module_loaded"].samples
    assert bool(found["sluice_queue_stops"].samples) is loaded
    for one in found.values():
        assert one.unit == ("seconds" if one.name.endswith("_seconds") else ""), one.name
    machine.stale = {'a"b'}
    said = run("metrics", 1)
    assert 'device="tap0"' in said.out
    assert said.err.startswith('sluice: netns a"b: cannot be entered')


def test_a_textfile_has_type_and_help_of_each_series(machine: Machine, run) -> None:
    """node_exporter takes a counter whose TYPE has another name for untyped."""
    text = run("metrics").out
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert set(types.values()) == {"gauge", "counter"}
    series = {re.match(r"[a-z_]+", name)[0] for name in check_rules(text)}
    assert series <= set(types)
    assert all((types[one] == "counter") is one.endswith("_total") for one in series)


def test_both_formats_have_the_same_samples(machine, run, monkeypatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.5)
    text = check_rules(run("metrics").out)
    assert check_rules(run("metrics --openmetrics").out, openmetrics=True) == text
    assert text["sluice_metrics_timestamp_seconds"] == "1700000000.5"


def test_rules_that_are_not_loaded_are_counted(machine: Machine, run) -> None:
    config.PATH.write_text("tap0 off\ntap1 off\nnonsense\n")
    samples = check_rules(run("metrics").out)
    counts = {name: samples[f"sluice_rules{name}"] for name in ("", "_wrong", "_differ")}
    assert counts == {"": "2", "_wrong": "1", "_differ": "2"}
    machine.loaded = False
    assert "sluice_rules_differ" not in check_rules(run("metrics").out)


def view(netns: str, process: str) -> View:
    seen = View(netns, 2, "tun0", "tun", True, (), "", None, None, "stock", "", 0, 1, 0,
                ())
    return replace(seen, netns_process=process)


def test_label_of_a_namespace_has_no_process_number() -> None:
    views = [view("", ""), view("red", ""), view("25735", "nginx"), view("red", ""),
             view("25799", "nginx"), view("/run/docker/netns/3f9c", "pause")]
    assert metrics.netns_labels(views) == {
        "": "", "red": "red", "25735": "nginx", "25799": "nginx#2",
        "/run/docker/netns/3f9c": "pause",
    }
    named = [view("nginx", ""), view("7", "nginx")]
    assert metrics.netns_labels(named) == {"nginx": "nginx", "7": "nginx#2"}


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_file_is_replaced_at_once_and_can_be_read(
    machine: Machine, run, tmp_path: Path, mask: int
) -> None:
    path = tmp_path / "sluice.prom"
    path.write_text("old")
    before = os.umask(mask)
    try:
        assert run(["metrics", "--output", str(path)]).out == ""
    finally:
        os.umask(before)
    assert check_rules(path.read_text())["sluice_module_loaded"] == "1"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [one.name for one in tmp_path.iterdir() if "prom" in one.name] == [path.name]
    path = tmp_path / "none" / "sluice.prom"
    reason = f"no such file or directory; make its directory: mkdir -p {path.parent}"
    assert run(["metrics", "--output", str(path)], 1).err == f"sluice: {path}: {reason}\n"


def test_without_the_module_drops_remain(machine: Machine, run) -> None:
    machine.loaded = False
    samples = check_rules(run("metrics").out)
    assert samples["sluice_module_loaded"] == "0"
    assert samples[f'sluice_build_info{{command="{VERSION}",module=""}}'] == "1"
    assert samples['sluice_device_drops_total{device="tap0",netns=""}'] == "17"
    assert not any(
        name.startswith(("sluice_queue", "sluice_device_on", "sluice_device_state"))
        for name in samples
    )


def test_names_that_cannot_be_printed_stay_apart(machine: Machine, run) -> None:
    """Prometheus refuses a scrape with two equal samples, and anybody names devices."""
    names = ["t\x01", "t\x02", "t\udcff", r"t\x01", "tüp"]
    machine.links[:] = [
        replace(TAP0, ifindex=number, name=name)
        for number, name in enumerate(names, start=10)
    ]
    machine.loaded = False
    samples = check_rules(run("metrics").out)
    seen = [name for name in samples if name.startswith("sluice_device_drops_total")]
    assert len(seen) == len(names), seen
    assert any('device="tüp"' in name for name in seen)


def test_pace_that_was_not_measured_has_no_sample(machine: Machine, run) -> None:
    machine.queues[0] = replace(QUEUE0, reader_ns=1_000_000)
    machine.queues[1] = replace(QUEUE1, reader_ns=1_000_001)
    said = run("metrics").out
    paces = [one for one in said.splitlines() if one.startswith("sluice_queue_reader_s")]
    assert [one.rpartition(" ")[2] for one in paces] == ["0.001000001"]


# Prometheus' own tool

TREE = Path(__file__).parents[2]
RULES = TREE / "packaging/prometheus/sluice.rules.yml"


@pytest.fixture
def tool() -> str:
    found = promtool()
    if found is None:
        pytest.skip("no promtool; make check fetches it")
    return str(found)


@pytest.mark.parametrize("loaded", [True, False])
def test_metrics_have_nothing_to_correct(machine: Machine, run, tool, loaded) -> None:
    machine.loaded = loaded
    text = run("metrics").out
    command = [tool, "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_alerts_are_raised_for_what_they_name_and_nothing_else(tool, tmp_path) -> None:
    for path in (RULES, TREE / "tests/prometheus/alerts.yml"):
        shutil.copy(path, tmp_path)
    command = [tool, "test", "rules", "alerts.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_its_section_of_the_handbook() -> None:
    handbook = (TREE / "docs/operating.md").read_text()
    sections = {name.lower() for name in re.findall(r"^### (\w+)$", handbook, re.M)}
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]:
        page, _, section = rule["annotations"]["runbook_url"].partition("#")
        assert page == "docs/operating.md"
        assert section == rule["alert"].lower() and section in sections
