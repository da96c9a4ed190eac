# SPDX-License-Identifier: GPL-2.0-or-later
"""ynl, the kernel's own netlink client, with docs/sluice.yaml and nothing else.

Only tests/kernel/test_programs.py copies it into the guest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.guest.devices import HERE
from lab.guest.scenarios import Env, scenario
from sluice.netlink import Client
from tests.kernel.scenarios._tap import stall_again, tap
from tests.kernel.scenarios._traffic import ifindex, read_device, send, sink

LINUX = Path("/out/linux")
CLIENT = LINUX / "tools/net/ynl/cli.py"
SCHEMA = LINUX / "Documentation/netlink/genetlink-c.yaml"
SPEC = Path(__file__).resolve().parents[3] / "docs/sluice.yaml"
RING = 50


def _needs_ynl(env: Env) -> None:
    if not CLIENT.exists():
        env.skip("ynl is not in this guest; make test-all copies it there")


def _command(*arguments: str, **attrs: Any) -> list[str]:
    command = [sys.executable, str(CLIENT), "--spec", str(SPEC)]
    command += ["--schema", str(SCHEMA), "--output-json", *arguments]
    return [*command, "--json", json.dumps(attrs)]


def _ynl(*arguments: str, **attrs: Any) -> Any:
    """The answer that ynl prints, with underscores in the names."""
    done = subprocess.run(
        _command(*arguments, **attrs), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.replace("-", "_")) if done.stdout.strip() else None


def _as_ynl(answer: Any) -> dict[str, Any]:
    """An answer of our client as ynl prints it: lists, and no empty text."""
    plain = json.loads(json.dumps(asdict(answer)))
    fields = {key: value for key, value in plain.items() if value != ""}
    return {key: int(v) if key == "on" else v for key, v in fields.items()}


@scenario(deadline=120, often=False)
def ynl_reads_what_our_client_reads(env: Env) -> None:
    _needs_ynl(env)
    env.load("stall_ms=60000")  # it stays stopped
    sink(env, ring=RING, paused=True)
    send(2 * RING)
    with Client() as client:
        devices = [_as_ynl(one) for one in client.devices()]
        queues = [_as_ynl(one) for one in client.queues()]
    found = _ynl("--dump", "device-get")
    assert found == devices, (found, devices)
    assert _ynl("--do", "device-get", ifindex=ifindex()) == devices[0]
    assert _ynl("--dump", "queue-get") == queues
    assert queues[0]["state"] == "stopped" and queues[0]["stops"] == 1, queues


def _read_rules() -> list[dict[str, Any]]:
    """The rules, without empty texts."""
    rules = _ynl("--dump", "rule-get") or []
    return [{key: v for key, v in one.items() if v != ""} for one in rules]


@scenario(deadline=120, often=False)
def ynl_replaces_the_rules(env: Env) -> None:
    _needs_ynl(env)
    env.load()
    sink(env)
    off = {"pattern": f"{HERE.name}*", "netns": "all", "on": 0, "origin": "here:1"}
    slow = {"pattern": "tap[01]", "netns": "host", "on": 1, "stall_ms": 900}
    slow |= {"qdisc": "fq_codel"}
    request = [{name.replace("_", "-"): v for name, v in r.items()} for r in (off, slow)]
    _ynl("--do", "rules-set", rule=request)
    assert _read_rules() == [off, slow]
    (device,) = _ynl("--dump", "device-get")
    assert (device["on"], device["rule"], device["by_rule"]) == (0, "here:1", ["on"])
    _ynl("--do", "device-set", ifindex=ifindex(), on=1)
    assert read_device().on
    _ynl("--do", "rules-set", rule=request, reset=[HERE.name])
    assert not read_device().on
    refused = subprocess.run(
        _command("--do", "rules-set", rule=[{"pattern": "x", "on": 2}]),
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1, refused
    assert _read_rules() == [off, slow]
    _ynl("--do", "rules-set")
    assert not _read_rules()
    assert read_device().on


@scenario(deadline=120, often=False)
def ynl_hears_events(env: Env) -> None:
    """The queue stalls again and again while ynl listens."""
    _needs_ynl(env)
    env.load("stall_ms=10")
    device = env.enter(tap(ring=RING))
    send(2 * RING)
    command = _command("--subscribe", "events", "--sleep", "5")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listening:
        while listening.poll() is None:
            stall_again(env, device)
        heard = json.loads(listening.communicate()[0])
    assert heard, "no event"
    for event in heard:
        assert event["name"] == "queue-event", event
        told = {key: event["msg"][key] for key in ("ifname", "queue", "kind", "ring")}
        assert told == dict(ifname=HERE.name, queue=0, kind="stall", ring=RING), event
