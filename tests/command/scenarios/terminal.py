# SPDX-License-Identifier: GPL-2.0-or-later
"""watch and monitor on a terminal, beside live traffic and what changes meanwhile."""

from __future__ import annotations

import termios

from lab.guest.devices import HERE
from lab.guest.scenarios import Env, scenario
from lab.guest.tun import IFF_TAP
from tests._terminal import Terminal
from tests.kernel.scenarios._command import SECONDS, SLUICE, needs_click
from tests.kernel.scenarios._tap import Tap, tap
from tests.kernel.scenarios._traffic import flood, send, sink, wait_for_stops

LOOK_SECONDS = 60


def _open(env: Env, *arguments: str) -> Terminal:
    if not hasattr(termios, "tcsetwinsize"):
        env.skip("Python 3.11: this distribution's is older")
    one = Terminal([*SLUICE, *arguments], columns=80, lines=24)
    env.defer(one.close)
    return one


def _wait_for_line(env: Env, one: Terminal, *words: str) -> list[str]:
    """Until a line of watch's last whole screen has these words; the words of it."""

    def lines() -> list[str]:
        return [line for line in one.screen() if all(word in line for word in words)]

    try:
        one.wait_for(lambda: bool(lines()), LOOK_SECONDS * env.patience)
    except AssertionError:
        raise AssertionError(f"{words}: not in {one.screen()}") from None
    found = lines()[-1].split()
    one.shown = b""
    return found


@scenario(deadline=2 * SECONDS, often=False)
def watch_follows_traffic_size_devices_and_the_module(env: Env) -> None:
    needs_click(env)
    env.load("stall_ms=60000")
    reader = sink(env)
    running = env.enter(flood())
    wait_for_stops(env, reader, more_than=20)
    one = _open(env, "watch")
    _wait_for_line(env, one, HERE.name)
    columns = dict(
        zip(
            _wait_for_line(env, one, "QUEUE", "STATE"),
            _wait_for_line(env, one, HERE.name),
        )
    )
    assert columns["STATE"] in ("open", "stopped"), columns
    assert int(columns["LIMIT"]) < 1000, columns
    assert columns["PKT/S"] != "0" and columns["DROP/S"] == "0", columns
    for size in ((40, 12), (120, 30), (80, 24)):
        one.resize(*size)
        one.shown = b""
        one.wait_for(lambda: one.shown.count(b"QUEUE  ") > 3, LOOK_SECONDS)
        assert max(one.widths()) <= size[0], one.screen()
    running.end()
    reader.end()
    _wait_for_line(env, one, "no tun or tap device in any network namespace")
    other = Tap(IFF_TAP, "other0")
    other.open_queue()
    env.defer(other.close_queue, 0)
    _wait_for_line(env, one, "other0", "down")
    env.run("rmmod", "sluice")
    _wait_for_line(env, one, "; module not loaded")
    one.type(b"q")
    one.wait_for(lambda: one.process.poll() is not None, LOOK_SECONDS)
    one.read_rest()
    assert one.process.returncode == 0 and b"Traceback" not in one.shown, one.shown


@scenario(deadline=2 * SECONDS, often=False)
def monitor_tells_of_stalls_and_of_the_module(env: Env) -> None:
    needs_click(env)
    env.load()
    one = _open(env, "monitor")

    def wait_for(text: str) -> None:
        one.wait_for(lambda: text.encode() in one.shown, LOOK_SECONDS * env.patience)
        one.shown = b""

    wait_for("listening in 1 network namespace; Ctrl-C ends it")
    for _ in range(2):
        with tap(ring=50):
            send(200)
            wait_for(f"{HERE.name} queue 0 stalled: reader too slow")
        env.run("rmmod", "sluice")
        wait_for("module: not loaded any more; waiting for it")
        env.run("insmod", str(env.module))
        wait_for("module: loaded again")
    one.type(b"\x03")
    one.wait_for(lambda: one.process.poll() is not None, LOOK_SECONDS)
    assert one.process.returncode == 0 and b"Traceback" not in one.shown, one.shown
