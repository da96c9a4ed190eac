# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice install, sluice uninstall: from a source tree, through DKMS.

Each command that changes the system is shown before it runs. What a failed
install did is undone, in reverse.
"""

from __future__ import annotations

import contextlib
import platform
import shlex
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from sluice import VERSION, config, doctor, options, output, system
from sluice.errors import FINE, NO, SluiceError, Unsuitable

TREE = Path(__file__).resolve().parent.parent
SOURCE = f"/usr/src/sluice-{VERSION}"
COMMAND = "/usr/local/sbin/sluice"
AT_BOOT = "/etc/modules-load.d/sluice.conf"
UDEV_RULE = "/etc/udev/rules.d/60-sluice.rules"
KERNEL_HOOKS = ("/etc/kernel/postinst.d/sluice", "/etc/kernel/header_postinst.d/sluice")
NAMED = ("-m", "sluice", "-v", VERSION)  # as DKMS calls us
DKMS_TREE = "/var/lib/dkms/sluice"
MAKE_LOG = Path(f"{DKMS_TREE}/{VERSION}/build/make.log")
# Where DKMS's own hook would fail with the build, and apt with it.
KERNEL_HOOK = f"""\
#!/bin/sh
# Written by: sluice install. A kernel must install with or without sluice.
dkms install {' '.join(NAMED)} -k "$1" || echo "sluice: kernel $1: no module" >&2
exit 0
"""


@dataclass(frozen=True)
class Step:
    """A command, what it reads, and what undoes it."""

    command: tuple[str, ...]
    undo: tuple[str, ...] = ()
    stdin: str = ""


@dataclass(frozen=True)
class Ran:
    """A command that ran, or would run, and its status."""

    command: str
    status: int | None  # None: it was only shown


def _write(path: str, text: str, mode: str = "644") -> Step:
    write = ("install", "-D", "-m", mode, "/proc/self/fd/0", path)
    return Step(write, ("rm", "-f", path), text)


def dkms_conf(debian: bool) -> str:
    """The tree's, less its comments; elsewhere DKMS builds for new kernels."""
    lines = (TREE / "kmod/dkms.conf").read_text().splitlines(keepends=True)
    said = "".join(line for line in lines if not line.startswith("#")).lstrip()
    return said + ("" if debian else 'AUTOINSTALL="yes"\n')


def install_steps(release: str, debian: bool, rule: str) -> list[Step]:
    """rule: the udev rule of the tree."""
    dkms = tuple(("dkms", verb, *NAMED) for verb in ("add", "build", "install"))
    return [
        Step(("cp", "-r", f"{TREE}/kmod", SOURCE), ("rm", "-rf", SOURCE)),
        Step(
            ("install", "-m", "644", "/proc/self/fd/0", f"{SOURCE}/dkms.conf"),
            stdin=dkms_conf(debian),
        ),
        Step(dkms[0], ("dkms", "remove", *NAMED, "--all")),
        Step((*dkms[1], "-k", release)),
        Step((*dkms[2], "-k", release)),
        Step(("modprobe", "sluice"), ("modprobe", "-r", "sluice")),
        _write(AT_BOOT, "sluice\n"),
        *(_write(path, KERNEL_HOOK, "755") for path in KERNEL_HOOKS if debian),
        Step(("ln", "-s", f"{TREE}/bin/sluice", COMMAND), ("rm", "-f", COMMAND)),
        _write(UDEV_RULE, rule.replace("/usr/sbin/sluice", COMMAND)),
    ]


def _uninstall_steps() -> list[Step]:
    """What of an install is there, last first."""
    files = [UDEV_RULE, COMMAND, *reversed(KERNEL_HOOKS), AT_BOOT]
    steps = [Step(("rm", "-f", path)) for path in files if system.exists(path)]
    if system.read_module_version():
        steps.append(Step(("modprobe", "-r", "sluice")))
    if system.exists(f"{DKMS_TREE}/{VERSION}"):  # asking DKMS may take too long
        steps.append(Step(("dkms", "remove", *NAMED, "--all")))
    if system.exists(SOURCE):
        steps.append(Step(("rm", "-rf", SOURCE)))
    return steps


def _check_secure_boot() -> None:
    key, trusted = system.read_signing_key()
    facts = doctor.Facts(
        secure_boot=system.read_secure_boot(),
        signed_only=system.read_signed_only(),
        signing_key=key,
        key_trusted=trusted,
    )
    for finding in doctor.check_secure_boot(facts):
        if finding.level == doctor.BAD:
            raise Unsuitable(f"secure boot: {finding.text}; run: {finding.mend}")


def _check_machine(release: str, distribution: tuple[str, ...]) -> None:
    """Everything the build and the module need is there."""
    known = doctor.parse_config(system.read_kernel_config(release))
    for lack in doctor.kernel_lacks(platform.version(), known):
        raise Unsuitable(f"kernel {release}: {lack}; stock behaviour remains")
    if not system.has_headers(release):
        mend = doctor.install_command(distribution, release, "headers")
        raise Unsuitable(f"kernel {release}: its headers are missing; run: {mend}")
    if system.read_dkms() is None:
        mend = doctor.install_command(distribution, release, "dkms")
        raise Unsuitable(f"dkms: not installed; run: {mend}")
    _check_secure_boot()


def _check_ours(verb: str) -> None:
    """The command is a source tree's, and no package has the module."""
    for path in (str(Path(__file__).resolve()), f"{SOURCE}/Kbuild"):
        package, remove = system.read_package(path)
        if package:
            raise SluiceError(f"{path}: is the package {package}'s; use: {remove}")
    if not (TREE / "kmod/Kbuild").exists():
        raise SluiceError(f"{verb}: {TREE} is no source tree; run it from one")


def _check_not_there() -> None:
    for path in (SOURCE, DKMS_TREE, COMMAND, UDEV_RULE):
        if system.exists(path):
            raise SluiceError(f"{path}: is there already; run: sluice uninstall")


def _read_rule() -> str:
    path = TREE / "packaging/60-sluice.rules"
    if not path.exists():
        raise SluiceError(f"{path}: missing; run it from a whole tree")
    return path.read_text()


def format_step(step: Step) -> list[str]:
    """As a shell would take it, and what it reads."""
    return [f"+ {shlex.join(step.command)}"] + [
        f"  | {line}" for line in step.stdin.splitlines()
    ]


def _run(step: Step, dry: bool, ran: list[Ran]) -> tuple[int, str]:
    output.note(format_step(step))
    status, said = (0, "") if dry else system.run(step.command, step.stdin)
    ran.append(Ran(shlex.join(step.command), None if dry else status))
    return status, said


def _undo(steps: list[Step], ran: list[Ran]) -> list[str]:
    """The commands that failed."""
    undos = [Step(step.undo) for step in reversed(steps) if step.undo]
    return [shlex.join(undo.command) for undo in undos if _run(undo, False, ran)[0]]


def _read_log(step: Step) -> str | None:
    """What the compiler said, before the undo takes it away."""
    return system.read_text(MAKE_LOG) if step.command[:2] == ("dkms", "build") else None


@contextlib.contextmanager
def _ended_as_by_key() -> Iterator[None]:
    """Whoever ends us from outside gets what Ctrl-C gets: all is undone."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before):  # noqa: B905
            signal.signal(number, handler)


def do(steps: list[Step], dry: bool, ran: list[Ran]) -> None:
    """All steps, or none: if one fails or is interrupted, all is undone."""
    done: list[Step] = []
    try:
        for step in steps:
            status, said = _run(step, dry, ran)
            if status:
                output.note((_read_log(step) or said).splitlines()[-20:])
                break
            done.append(step)
        else:
            return
    except BaseException:
        _undo([*done, step], ran)
        raise
    _undo([step], ran)  # what it did before it failed, if anything
    left = _undo(done, ran)
    rest = f"left to do: {'; '.join(left)}" if left else "all is undone"
    what = shlex.join(step.command[:2])
    raise SluiceError(f"{what}: status {status} (see above), {rest}; see: sluice doctor")


def _say(ran: list[Ran], text: str, as_json: bool) -> None:
    if as_json:
        output.say_json({"commands": ran, "verdict": text})
    else:
        output.say(output.wrap(text, rest="  "))


DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show the commands.")


def _check_root(verb: str, dry: bool) -> None:
    if not dry and not system.is_root():
        raise SluiceError(f"{verb}: changes the system; run it as root, or --dry-run")


@click.command()
@DRY_RUN
@options.json_option
def install(dry_run: bool, as_json: bool) -> int:
    """Build the module through DKMS, load it now and at boot.

    From a source tree, which has to stay. Shows each command before it runs;
    if one fails, all is undone.
    """
    release, distribution = platform.release(), system.read_distribution()
    _check_ours("install")
    _check_machine(release, distribution)
    _check_not_there()
    _check_root("install", dry_run)
    steps = install_steps(release, "debian" in distribution, _read_rule())
    ran: list[Ran] = []
    with _ended_as_by_key():
        do(steps, dry_run, ran)
    if system.exists(str(config.PATH)):
        _run(Step((COMMAND, "apply")), dry_run, ran)
    done = "nothing was done" if dry_run else "installed; see: sluice status"
    _say(ran, done, as_json)
    return FINE


@click.command()
@DRY_RUN
@options.json_option
def uninstall(dry_run: bool, as_json: bool) -> int:
    """Take away all that install wrote; stock behaviour returns at once."""
    _check_ours("uninstall")
    _check_root("uninstall", dry_run)
    ran: list[Ran] = []
    failed = [step for step in _uninstall_steps() if _run(step, dry_run, ran)[0]]
    for step in failed:
        output.complain(f"{shlex.join(step.command)}: failed; run it again by hand")
    kept = f"; {config.PATH} is kept" if system.exists(str(config.PATH)) else ""
    text = "uninstalled" if ran else "nothing is installed from a tree"
    text = "nothing was done" if dry_run else "not all is gone" if failed else text
    _say(ran, text + kept, as_json)
    return NO if failed else FINE
