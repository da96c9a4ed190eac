# SPDX-License-Identifier: GPL-2.0-or-later
"""make install, sluice install, and their opposites: from a tree, no packages."""

from __future__ import annotations

import os
from pathlib import Path

from lab.guest.scenarios import Env, scenario
from sluice import VERSION
from tests.kernel.scenarios._traffic import assert_flows, sink
from tests.packaging.scenarios import _machine as debian

BUILT = Path(f"/var/lib/dkms/sluice/{VERSION}/{os.uname().release}")

# Which a guest may lack.
FOLDERS = ("/etc/systemd/system/multi-user.target.wants", "/etc/udev/rules.d")


def read_machine() -> set[str]:
    """Its files before, with the folders each machine with systemd has."""
    for folder in FOLDERS:
        Path(folder).mkdir(parents=True, exist_ok=True)
    return debian.read_files()


def install(*options: str) -> debian.Done:
    parts: list[str] = [] if debian.has_command() else ["module"]
    return debian.run("/sluice/packaging/install", *options, *parts)


def command(verb: str, *options: str) -> debian.Done:
    """By the tree's own command, which looks at the machine first."""
    done = debian.run("/sluice/bin/sluice", verb, *options)
    assert done.status == 0, done.said
    return done


def assert_installs_nothing(before: set[str], status: int, *words: str) -> None:
    done = install()
    assert done.status == status, done.said
    last = done.said.splitlines()[-1]
    assert last.startswith("install: "), done.said
    for word in words:
        assert word in last, (word, last)
    debian.assert_no_trace(before)


@scenario(deadline=1800, often=False)
def tree_is_installed_twice_and_removed(env: Env) -> None:
    reader = sink(env, ring=100)
    before = read_machine()
    env.defer(install, "--remove")
    for _ in range(2):
        done = install()
        assert done.status == 0, done.said
        debian.assert_served(env, reader)
    assert len(debian.module_files()) == 1
    with debian.broken_headers():
        failed = install()
    assert failed.status == 1, failed.said
    last = failed.said.splitlines()[-1]
    assert last == "install: module: not built (see above), nothing was changed", last
    assert len(debian.module_files()) == 1 and BUILT.exists()
    debian.assert_served(env, reader)
    assert "\n+ dkms install" in done.said and "\n+ install -D" in done.said
    removed = install("--remove")
    assert removed.status == 0 and "\n+ dkms remove" in removed.said, removed.said
    debian.assert_no_trace(before)
    assert_flows(env)
    assert install("--remove").status == 0


@scenario(deadline=900, often=False)
def command_installs_and_uninstalls_whole(env: Env) -> None:
    if not debian.has_command():
        env.skip("a Debian with click 8.1: this one's is older")
    reader = sink(env, ring=100)
    before = read_machine()
    dry = command("install", "--dry-run")
    assert dry.lines("+ /usr/local/lib/sluice/module build"), dry.said
    debian.assert_no_trace(before)
    env.defer(install, "--remove")
    done = command("install")
    assert done.lines("+ dkms install") and done.lines("+ modprobe"), done.said
    debian.assert_served(env, reader)
    env.run("/usr/local/sbin/sluice", "status")
    rule = Path("/etc/udev/rules.d/60-sluice.rules").read_text()
    assert "/usr/local/sbin/sluice apply --keep" in rule
    gone = command("uninstall")
    assert gone.said.splitlines()[-1] == "uninstalled", gone.said
    debian.assert_no_trace(before)
    assert_flows(env)


@scenario(deadline=900, often=False)
def tree_without_headers_installs_nothing(env: Env) -> None:
    away = debian.BUILD.with_name("build.away")
    debian.BUILD.rename(away)
    env.defer(away.rename, debian.BUILD)
    assert_installs_nothing(read_machine(), 3, "no headers")


@scenario(deadline=900, often=False)
def tree_that_does_not_build_is_removed_again(env: Env) -> None:
    before = read_machine()
    env.enter(debian.broken_headers())
    assert_installs_nothing(before, 1, "not built")
