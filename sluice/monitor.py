# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice monitor: the module's events as they happen."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import select
import sys
import time
from collections.abc import Iterator

import click

from sluice import devices, namespaces, options, output
from sluice.errors import FINE, SluiceError
from sluice.namespaces import Namespace
from sluice.netlink import Client, Event, Listener
from sluice.rules import NOT_LOADED

AGAIN_SECONDS = 5.0  # between two searches for new namespaces


def read_family() -> int:
    """The number of the module's family; 0: it is not loaded."""
    try:
        with Client() as client:
            return client.family
    except LookupError:
        return 0


class Ears:
    """A listener in each namespace, or only in the one that is named."""

    def __init__(self, netns: str | None) -> None:
        self._only = netns
        self._family = 0
        self._was_loaded = False
        self._was_full = False
        self._listeners: dict[int, tuple[Namespace, Listener]] = {}
        self.look_around()
        if not self._listeners:
            raise SluiceError(NOT_LOADED)

    def look_around(self) -> None:
        """Listen in new namespaces, and forget those that are gone; begin again in all
        after the module was loaded again."""
        again = self._follow_module(read_family())
        if not self._family:
            return
        if self._only is None:
            found = namespaces.read_all()
        else:
            found = [namespaces.find(self._only)]
        for inode in set(self._listeners) - {one.inode for one in found}:
            self._listeners.pop(inode)[1].close()
        for one in found:
            if one.inode in self._listeners:
                continue
            try:
                with namespaces.entered(one):
                    self._listeners[one.inode] = (one, Listener())
            except LookupError:
                pass
            except SluiceError:  # of all namespaces the others are heard
                if self._only is not None:
                    raise
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
                if not self._was_full:
                    output.note(
                        [f"too many open files: hears {self.describe()}; see: ulimit -n"]
                    )
                self._was_full = True
                break
        if again:
            output.note(["module: loaded again"])

    def _follow_module(self, family: int) -> bool:
        """A module that was loaded again is heard by new listeners only. Returns whether
        it was."""
        if family == self._family:
            return False
        for _, listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        if not family:
            output.note(["module: not loaded any more; waiting for it"])
        again = bool(family) and self._was_loaded
        self._family, self._was_loaded = family, True
        return again

    def read(self, seconds: float) -> list[tuple[Namespace, Event]]:
        by_fd = {pair[1].fileno(): pair for pair in self._listeners.values()}
        poll = select.poll()
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        return [
            (by_fd[fd][0], event)
            for fd, _ in poll.poll(1000 * seconds)
            for event in _heard(by_fd[fd][1])
        ]

    def describe(self) -> str:
        return output.count(len(self._listeners), "network namespace")


def _heard(listener: Listener) -> list[Event]:
    """Its events; where they came faster than they were read, as while this command was
    stopped, some are lost."""
    try:
        return listener.read(0)
    except OSError as error:
        if error.errno != errno.ENOBUFS:
            raise
    output.note(["events were lost: more came than were read"])
    return []


def events(netns: str | None) -> Iterator[tuple[Namespace, Event]]:
    """Every event from now on."""
    ears = Ears(netns)
    if sys.stderr.isatty():
        output.note([f"listening in {ears.describe()}; Ctrl-C ends it"])
    looked = time.monotonic()
    while True:
        yield from ears.read(AGAIN_SECONDS)
        if time.monotonic() - looked >= AGAIN_SECONDS:
            ears.look_around()
            looked = time.monotonic()


TEXTS = {
    "stop": "stopped for the first time",
    "stall": "stalled: reader too slow",
    "noqueue": "has noqueue, though its rule names a qdisc",
}


def format_event(one: Namespace, event: Event, at: float) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(at))
    where = f" (netns {one.name})" if one.name else ""
    times = f", {event.count} times" if event.count > 1 else ""
    what = TEXTS.get(event.kind, event.kind)
    queue = "" if event.kind == "noqueue" else f" queue {event.queue}"
    fill = f"; fill {event.fill} of {event.ring}" if event.ring else ""
    return f"{clock} {event.ifname}{where}{queue} {what}{times}{fill}"


@click.command()
@options.names_argument(required=False)
@options.count_option("events")
@options.netns_option
@options.json_option
def monitor(
    names: tuple[str, ...], count: int, netns: str | None, as_json: bool
) -> int:
    """Print events: first stops, stalls, devices with noqueue.

    Of all devices, or of those named, which may appear later.
    """
    heard = (pair for pair in events(netns) if devices.is_meant(pair[1].ifname, names))
    with contextlib.suppress(KeyboardInterrupt):
        for number, (one, event) in enumerate(heard, 1):
            now = time.time()
            if as_json:
                answer = {"time": now, "netns": one.name, **dataclasses.asdict(event)}
                output.say_json(answer, indent=None)
            else:
                output.say([format_event(one, event, now)])
            if number == count:
                break
    return FINE
