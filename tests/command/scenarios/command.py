# SPDX-License-Identifier: GPL-2.0-or-later
"""The operator's command against the real module, end to end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

from lab.guest.devices import FAR, HERE, NEAR, forwarder
from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_TAP
from sluice.netlink import Client
from tests.kernel.scenarios import _traffic as net
from tests.kernel.scenarios._command import CONFIG, SECONDS, SLUICE, needs_click, sluice
from tests.kernel.scenarios._ftrace import calls_lost, mount_tracefs
from tests.kernel.scenarios._tap import Tap, slow_reader, tap
from tests.systemd.scenarios._machine import container


@scenario(deadline=SECONDS)
def command_sees_and_switches_two_namespaces(env: Env) -> None:
    needs_click(env)
    mount_tracefs()  # what doctor asks for
    env.load()
    env.enter(forwarder(env.helper("reader"), "sluice"))
    seen = json.loads(sluice("--json"))["devices"]
    found = {one["name"]: one for one in seen}
    assert set(found) == {NEAR.name, FAR.name}, found
    near = found[NEAR.name]
    assert (near["netns"], near["kind"]) == (NEAR.netns, "tap"), near
    assert (near["state"], near["qdisc"]) == ("served", "fq_codel"), near
    assert near["owners"][0]["command"] == "reader", near
    sluice("off", "--now", NEAR.name, "--netns", str(NEAR.netns))
    rows = {line.split()[0]: line.split() for line in sluice().splitlines()}
    assert rows[NEAR.name][1:3] == ["near", "off"], rows
    assert rows[FAR.name][1:3] == ["far", "on"], rows
    said = sluice("status", NEAR.name)
    assert "  settings off (by hand)\n" in said, said
    assert max(len(line) for line in said.splitlines()) < 80, said
    said = sluice("metrics")
    assert f'sluice_device_on{{device="{NEAR.name}",netns="near"}} 0\n' in said
    assert sluice("metrics", "--openmetrics").endswith("# EOF\n")
    said = json.loads(sluice("doctor", "--json"))
    off = [one for one in said["findings"] if one["subject"] == f"{NEAR.name}@near"]
    assert [one["fix"] for one in off] == ["sluice on near0"], off


@scenario(deadline=SECONDS, on="newest-native")
def container_without_a_name_is_shown_and_switched(env: Env) -> None:
    """A private network namespace that nobody can name, and its tun device."""
    needs_click(env)
    env.load()
    sluice("off", "tun*")
    held = Tap(IFF_TAP, "unused0")  # a device here, too
    held.open_queue()
    env.defer(held.close_queue, 0)
    with container() as inside:
        pid = str(inside.process.pid)
        seen = json.loads(sluice("--json", "tun0"))["devices"]
        assert [(one["netns"], one["on"]) for one in seen] == [(pid, False)], seen
        said = sluice("doctor", "--json", status=None)
        subjects = {one["subject"] for one in json.loads(said)["findings"]}
        assert f"tun0@{pid}" in subjects, said
        process = Path(f"/proc/{pid}/comm").read_text().strip()
        assert f'device="tun0",netns="{process}"' in sluice("metrics")
        sluice("on", "--now", "tun0", "--netns", pid)
        (one,) = json.loads(sluice("--json", "tun0"))["devices"]
        assert one["on"] and one["settings"][0]["source"] == "by hand", one
    sluice("status", "tun0", status=1)


@scenario(deadline=SECONDS, on="newest-native")
def noqueue_is_reported_and_replaced_if_asked(env: Env) -> None:
    """As libvirt leaves the tap of a guest."""
    needs_click(env)
    env.load("stall_ms=60000")
    net.sink(env, ring=100, paused=True)
    net.set_qdisc(env, "noqueue")
    said = sluice("on", "--now", HERE.name)
    assert "noqueue: nothing to stop; attach a qdisc: --qdisc fq_codel" in said, said
    assert net.read_queue().state == "noqueue"
    sluice("on", "--now", HERE.name, "--qdisc", "fq_codel")
    assert "fq_codel" in env.run("tc", "qdisc", "show", "dev", HERE.name)
    # The guest starts again, and libvirt's hook runs: see sluice(8).
    sluice("on", "here*", "--qdisc", "fq_codel")
    net.set_qdisc(env, "noqueue")
    assert sluice("apply") == f"{HERE.name}: on, served\n1 rule loaded\n"
    assert "fq_codel" in env.run("tc", "qdisc", "show", "dev", HERE.name)
    net.send(300)
    assert net.read_queue().state == "stopped"
    assert net.counters().lost_at_ring == 0


@scenario(deadline=2 * SECONDS, on="newest-native")
def noqueue_that_is_set_late_is_replaced(env: Env) -> None:
    """As libvirt or Kata set it, some time after udev ran."""
    needs_click(env)
    env.load()
    sluice("on", "here*", "--qdisc", "fq_codel")
    following = subprocess.Popen(
        [*SLUICE, "apply", "--follow"], stdout=subprocess.PIPE, text=True
    )
    env.defer(following.kill)
    assert following.stdout.readline() == "1 rule loaded\n"

    def has_qdisc() -> bool:
        return "fq_codel" in env.run("tc", "qdisc", "show", "dev", HERE.name)

    for delay in (0, 0.1, 0.3, 1, 3):
        with tap(qdisc="pfifo"):
            time.sleep(delay)
            assert not has_qdisc()
            net.set_qdisc(env, "noqueue")
            env.wait_for(has_qdisc, f"fq_codel after {delay} s", seconds=60)
    assert following.poll() is None, "it ended"


@scenario(deadline=SECONDS, on="newest-native")
def devices_that_vanish_do_not_end_watch(env: Env) -> None:
    needs_click(env)
    env.load()
    watch = ("watch", "--json", "--interval", "0.05", "--count", "60")
    with subprocess.Popen(
        [*SLUICE, *watch], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        first = watching.stdout.readline()
        while watching.poll() is None:
            with tap(queues=2):
                pass
        out, err = watching.communicate()
    looks = [json.loads(line)["queues"] for line in [first, *out.splitlines()]]
    assert (watching.returncode, err, len(looks)) == (0, "", 60), err
    assert any(looks), "no look saw a device: proves nothing"
    assert not all(looks), "no look saw none: proves nothing"


@scenario(deadline=SECONDS)
def command_works_without_the_module(env: Env) -> None:
    needs_click(env)
    mount_tracefs()  # what doctor asks for
    env.enter(tap())
    said = sluice(HERE.name)
    assert "module: not loaded" in said, said
    assert f"{HERE.name} (tap): stock, drops at a full ring" in said, said
    assert sluice().splitlines()[-1].split()[:2] == [HERE.name, "stock"]
    said = sluice("off", HERE.name, status=1)
    assert said.startswith("sluice: module: not loaded; see: sluice doctor"), said
    assert f"{HERE.name} off" in CONFIG.read_text()
    said = sluice("doctor", status=1)
    # the cause, if there is one: this machine has no DKMS
    assert re.search(r"FAIL +(module|dkms): ", said), said


@scenario(deadline=SECONDS)
def doctor_sees_that_packets_bypass_the_hook(env: Env) -> None:
    """A live patch without ftrace takes the hook along; here its calls have no effect."""
    needs_click(env)
    env.load()
    net.sink(env, ring=100)
    with net.Flood(senders=1) as senders:
        senders.wait_for_more(env, 500, "traffic")
        assert "the hook saw none" not in sluice("doctor", status=None)
        with calls_lost(env, "sluice_queue_check"):
            said = sluice("doctor", "--json", status=1)
        senders.end()
    here = [one for one in json.loads(said)["findings"] if one["subject"] == HERE.name]
    assert any("the hook saw none" in one["text"] for one in here), here


@scenario(deadline=SECONDS)
def doctor_tells_a_slow_reader_from_a_dead_one(env: Env) -> str:
    needs_click(env)
    mount_tracefs()  # what doctor asks for
    env.load()
    device = env.enter(tap(ring=100))
    with net.Flood(senders=1) as senders:
        env.wait_for(lambda: net.read_queue().stalls > 0, "a stall", 30)
        said = sluice("doctor", status=1)
        assert "the reader read nothing" in said, said
        with slow_reader(device, rest=0.1):
            env.wait_for(lambda: device.read_count > 3, "packets that are read", 30)
            said = sluice("doctor", "--json", status=1)
        senders.end()
    here = [one for one in json.loads(said)["findings"] if one["subject"] == HERE.name]
    slow = [one for one in here if "the reader is slow" in one["text"]]
    assert slow and slow[0]["fix"].startswith("sluice on here0 --stall-ms"), here
    return f"{slow[0]['text']}: {slow[0]['fix']}"


ODD_NAMES = (b"-x", b"a=b", b"#1", b"*", b"\x1b[2J", b"caf\xc3\xa9", b"no\xfftext")


@scenario(deadline=SECONDS, on="newest-native")
def devices_of_any_name_are_shown_and_switched(env: Env) -> None:
    """All but a slash, a colon and a space is a name to the kernel."""
    needs_click(env)
    env.load()
    for name in ODD_NAMES:
        one = Tap(IFF_TAP, os.fsdecode(name))
        one.open_queue()
        env.defer(one.close_queue, 0)
    said = json.loads(sluice("--json"))["devices"]
    assert {os.fsencode(one["name"]) for one in said} == set(ODD_NAMES), said
    assert sluice().count(" down ") == len(ODD_NAMES)
    for pattern in ("--", "-x"), ("a=b",), ("[*]",), ("no*",), ("?1",):
        sluice("off", *pattern)
    with Client() as client:
        off = {os.fsencode(one.ifname) for one in client.devices() if not one.on}
    assert off == {b"-x", b"a=b", b"*", b"no\xfftext", b"#1"}, off


def _bench_processes() -> list[str]:
    """They hold the namespaces and devices, which nobody else does."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"/sluice\0bench" in process.read_bytes():
                found.append(process.parent.name)
    return found


def _wait_until_gone(env: Env) -> None:
    env.wait_for(lambda: not _bench_processes(), "no process is left")
    assert not list(Path("/run/netns").glob("*"))
    with Client() as client:
        assert client.devices() == []


@scenario(deadline=SECONDS)
def bench_shows_both_and_leaves_nothing(env: Env) -> None:
    needs_click(env)
    env.load("stall_ms=60000")  # a busy host may not run the reader for 250 ms
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "bench.svg"
        said = sluice(
            *("bench", "--json", "--rounds", "1"),
            *("--seconds", str(2 * env.patience), "--svg", str(picture)),
        )
        assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    results = json.loads(said)["results"]
    found = {(one["variant"], one["load"]): one for one in results}
    assert len(found) == 4, results
    assert found["stock", "udp"]["lost"] > 0, "stock lost nothing: proves nothing"
    for load in ("udp", "tcp"):
        assert found["sluice", load]["lost"] == 0, found
        assert found["sluice", load]["mbit"] > 0, found
        assert found["sluice", load]["probes_back"] > 0, found
    _wait_until_gone(env)


@scenario(deadline=SECONDS)
def interrupted_bench_leaves_nothing(env: Env) -> None:
    """Ctrl-C reaches the whole group; SIGKILL only the command itself."""
    needs_click(env)
    env.load()
    for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        process = subprocess.Popen(
            [*SLUICE, "bench"],
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        env.wait_for(
            lambda: len(_bench_processes()) == 5, "the bench is under way", 60
        )
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.kill()
        assert process.wait(20) == status
        _wait_until_gone(env)
