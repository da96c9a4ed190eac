# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice install, sluice uninstall: with packaging/install of a source tree.

The preconditions are checked before anything is changed. The script shows each
command before it runs it, and undoes its changes when one fails.
"""

from __future__ import annotations

import contextlib
import platform
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from sluice import VERSION, config, distributions, doctor, options, output, packages
from sluice import system
from sluice.errors import FINE, Denied, SluiceError, Unsuitable

TREE = Path(__file__).resolve().parent.parent
SOURCE = f"/usr/src/sluice-{VERSION}"


@dataclass(frozen=True)
class Ran:
    """What the script did, or would do with --dry-run."""

    status: int
    commands: list[str]
    last: str  # line of its output


def _check_signing() -> None:
    key, trusted = system.read_signing_key()
    facts = doctor.Facts(
        secure_boot=system.read_secure_boot(),
        signed_only=system.read_signed_only(),
        signing_key=key,
        key_trusted=trusted,
        mokutil=system.has_tool("mokutil"),
    )
    for finding in doctor.check_signing(facts):
        if finding.level == doctor.BAD:
            raise Unsuitable(f"signing: {finding.text}; run: {finding.fix}")


def _check_machine(release: str, distribution: tuple[str, ...]) -> None:
    """Raise an error unless everything that the build and the module need is there."""
    known = doctor.parse_config(system.read_kernel_config(release))
    for lack in doctor.kernel_lacks(platform.version(), known):
        raise Unsuitable(f"kernel {release}: {lack}; stock behaviour remains")
    if not system.has_headers(release):
        answers = packages.read_answers(distribution, release)
        advice = distributions.headers_advice(distribution, release, answers)
        why = f" ({advice.reason})" if advice.reason else ""
        run = f"run: {advice.command}" if advice.command else advice.instead
        raise Unsuitable(f"kernel {release}: its headers are missing{why}; {run}")
    if system.read_dkms() is None:
        command = distributions.install_dkms(distribution)
        next_step = f"run: {command}" if command else "install it"
        raise Unsuitable(f"dkms: not installed; {next_step}")
    _check_signing()


def _check_ours(verb: str) -> None:
    """Raise an error unless this is a source tree and no package has the module."""
    for path in (str(Path(__file__).resolve()), f"{SOURCE}/Kbuild"):
        package, remove = system.read_package(path)
        if package:
            raise SluiceError(f"{path}: is the package {package}'s; use: {remove}")
    if not (TREE / "packaging/install").exists():
        raise SluiceError(f"{verb}: {TREE} is not a source tree; run it from one")


def _check_root(verb: str, dry: bool) -> None:
    if not dry and not system.is_root():
        raise Denied(f"{verb}: changes the system; run it as root, or --dry-run")


@contextlib.contextmanager
def _ended_as_by_key() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C: the changes are undone."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before):  # noqa: B905
            signal.signal(number, handler)


def parse_commands(lines: list[str]) -> list[str]:
    """The commands in the script's output."""
    return [line[2:] for line in lines if line.startswith("+ ")]


def _run(dry: bool, *arguments: str) -> Ran:
    command = [str(TREE / "packaging/install"), *arguments]
    command += ["--dry-run"] if dry else []
    with _ended_as_by_key():
        status, lines = system.run_shown(command, lambda line: output.note([line]))
    return Ran(status, parse_commands(lines), lines[-1] if lines else "")


def _say(ran: Ran, text: str, as_json: bool) -> int:
    """Print the verdict; the script has already printed what failed."""
    if as_json:
        said = ran.last if ran.status else text
        output.say_json({"commands": ran.commands, "verdict": said})
    elif ran.status == FINE:
        output.say(output.wrap(text, rest="  "))
    return ran.status


DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show the commands.")


@click.command()
@DRY_RUN
@options.json_option
def install(dry_run: bool, as_json: bool) -> int:
    """Build the module through DKMS, load it now and at boot.

    From a source tree, with the command. Shows each command before it runs; if
    one fails, all is taken back.
    """
    release, distribution = platform.release(), system.read_distribution()
    _check_ours("install")
    _check_machine(release, distribution)
    _check_root("install", dry_run)
    ran = _run(dry_run)
    done = "nothing was done" if dry_run else "installed; see: sluice status"
    return _say(ran, done, as_json)


@click.command()
@DRY_RUN
@options.json_option
def uninstall(dry_run: bool, as_json: bool) -> int:
    """Remove all that install wrote; stock behaviour returns."""
    _check_ours("uninstall")
    _check_root("uninstall", dry_run)
    ran = _run(dry_run, "--remove")
    done = "uninstalled" if ran.commands else "nothing is installed from a tree"
    kept = f"; {config.PATH} is kept" if system.exists(str(config.PATH)) else ""
    return _say(ran, ("nothing was done" if dry_run else done) + kept, as_json)
