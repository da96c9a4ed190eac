# SPDX-License-Identifier: GPL-2.0-or-later
"""A VPN gateway: OpenVPN, udev and the command, in network namespaces."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lab.guest.devices import FAR, NEAR, attach, read_counters
from lab.guest.path import FAR_END, NEAR_END, path
from lab.guest.program import READY_SECONDS, Program, has_device, program, succeeds
from lab.guest.scenarios import Env, scenario
from lab.workloads.tcp import server
from lab.workloads.vpns import openvpn_arguments
from tests.kernel.scenarios._command import (
    SECONDS,
    SLUICE,
    needs_click,
    sluice,
    start_udev,
)
from tests.kernel.scenarios._traffic import read_device, read_queue
from tests.kernel.scenarios.applications import endless_tcp, needs_program

LINK_MBIT = 10  # slower than OpenVPN: the command has a processor left
RING = 100  # shorter than OpenVPN's 500: streams fill it all the time
STALL_MS = 700  # unlike any default


def _needs_openvpn(env: Env) -> None:
    needs_click(env)
    needs_program(env, "openvpn")


def _start_server(env: Env) -> None:
    """The other end of the tunnel, until the scenario's end."""
    env.enter(path(0, LINK_MBIT))
    role = ["--tls-server", "--dh", "none"]
    server = openvpn_arguments(FAR, FAR_END, NEAR_END, role)
    process = env.enter(program(FAR_END, server))
    process.wait_until(lambda: has_device(FAR), f"its device {FAR.name}")
    attach(replace(FAR, mac=""), replace(NEAR, mac=""), ring=RING)


@contextlib.contextmanager
def _vpn(env: Env) -> Iterator[Program]:
    """The gateway's end of the tunnel: its device exists while it runs."""
    client = openvpn_arguments(NEAR, NEAR_END, FAR_END, ["--tls-client"])
    with program(NEAR_END, client) as process:
        process.wait_until(lambda: has_device(NEAR), f"its device {NEAR.name}")
        attach(replace(NEAR, mac=""), replace(FAR, mac=""), ring=RING)
        ping = NEAR.command("ping", "-c", "1", "-W", "0.5", FAR.address)
        env.wait_for(lambda: succeeds(ping), "a ping", seconds=READY_SECONDS)
        yield process
    env.wait_for(lambda: not has_device(NEAR), "its device is gone")


@scenario(deadline=SECONDS, often=False)
def restarts_of_vpn_and_module_keep_what_is_remembered(env: Env) -> None:
    _needs_openvpn(env)
    env.load()
    _start_server(env)
    start_udev(env)
    said = sluice("on", "near*", "--stall-ms", str(STALL_MS), beside=NEAR)
    assert "no such device now" in said, said
    for _ in range(2):
        with _vpn(env):
            assert read_device(NEAR).stall_ms == STALL_MS
            assert read_device(NEAR).state == "served"
    sluice("off", "near*", beside=NEAR)
    with _vpn(env):
        assert not read_device(NEAR).on
        # As at boot, or after an upgrade: udev loads the rules when the module appears.
        env.run("rmmod", "sluice")
        env.load()
        env.wait_for(lambda: not read_device(NEAR).on, "rules loaded", seconds=60)


@scenario(deadline=SECONDS)
def running_vpn_is_seen_and_switched(env: Env) -> None:
    _needs_openvpn(env)
    env.load("stall_ms=60000")
    _start_server(env)
    env.enter(_vpn(env))
    env.enter(server())
    env.enter(endless_tcp(NEAR, FAR))
    env.wait_for(lambda: read_queue(NEAR).stops > 2, "stops", seconds=30)
    lost = read_counters(NEAR).lost_at_ring
    (found,) = json.loads(sluice("--netns", "", "--json", beside=NEAR))["devices"]
    assert (found["name"], found["state"], found["on"]) == (NEAR.name, "served", True)
    assert [owner["command"] for owner in found["owners"]] == ["openvpn"], found
    assert found["stops"] > 2 and found["drops"] == 0 and found["ring"] == RING, found
    looks = _watch()
    assert any(look["stops"] for look in looks), looks
    assert all(0 <= look["fill"] <= RING for look in looks), looks
    assert read_counters(NEAR).lost_at_ring == lost, "on, and packets were lost"
    said = sluice("off", "--now", NEAR.name, beside=NEAR)
    assert said == f"{NEAR.name}: off\n", said
    stops = read_queue(NEAR).stops
    packets = read_counters(NEAR).read
    env.wait_for(lambda: read_counters(NEAR).read > packets + RING, "it reads on")
    assert read_queue(NEAR).stops == stops, "stopped while off"
    sluice("on", "--now", NEAR.name, beside=NEAR)
    env.wait_for(lambda: read_queue(NEAR).stops > stops, "stops again", seconds=30)


def _watch() -> list[dict[str, Any]]:
    """The only queue in each line that watch prints."""
    how = ("--netns", "", "--json", "--interval", "0.5", "--count", "4")
    said = sluice("watch", *how, beside=NEAR)
    looks = [json.loads(line)["queues"] for line in said.splitlines()]
    assert all(len(queues) == 1 for queues in looks), looks
    return [queue for (queue,) in looks]


@scenario(deadline=SECONDS)
def vpn_that_ends_under_load_is_no_trouble(env: Env) -> None:
    """Its device vanishes while the command watches and switches it."""
    _needs_openvpn(env)
    env.load()
    _start_server(env)
    command = NEAR.command(
        *SLUICE, "watch", "--netns", "", "--json", "--interval", "0.1"
    )
    with _vpn(env) as vpn, server(), endless_tcp(NEAR, FAR):
        env.wait_for(lambda: read_queue(NEAR).stops, "a stop", seconds=30)
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        env.defer(watching.kill)
        assert json.loads(watching.stdout.readline())["queues"]
        switching = subprocess.Popen(
            NEAR.command(*SLUICE, "off", "near*"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        vpn.end()
    said = switching.communicate()[0]
    assert switching.returncode == 0 and "Traceback" not in said, said
    for line in watching.stdout:
        if not json.loads(line)["queues"]:
            break
    assert watching.poll() is None, "watch ended with the device"
    said = sluice("status", NEAR.name, beside=NEAR, status=1)
    assert said.startswith(f"sluice: {NEAR.name}: no such device"), said
