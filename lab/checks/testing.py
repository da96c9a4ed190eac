# SPDX-License-Identifier: GPL-2.0-or-later
"""The project's tests: their tools, and the kernel scenarios of one kernel."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab import processes
from lab.checks import packages, quick, verify
from lab.failure import FINE, NO, LabError
from lab.guest.scenarios import find_scenarios
from lab.machines import build, matrix, vm
from lab.machines.chroot import Root
from lab.machines.matrix import KERNELS, NATIVE, NEWEST, PACKAGED, Kernel, kernel_named
from lab.machines.roots import ensure_disk, ensure_root, has_root, make_empty_disk
from lab.setup import ensure_promtool, ensure_venv, say
from lab.workloads.applications import PACKAGES

GOOD = ("passed", "skipped")
RACED = "lost by the emulator"  # see vm.EmulatorRace
# For a boot, besides the mean time of its scenarios; the longest takes 15 minutes.
BOOT_SECONDS = 900.0
WORKERS = 2  # roots at a time
BOOTS = 4  # at most: each scenario that loses the VM needs another


@dataclass(frozen=True)
class Suite:
    """The scenarios of one folder, and what they are played on."""

    name: str  # of the folder below tests/
    kernels: tuple[Kernel, ...]
    often: tuple[Kernel, ...]  # of these, what make test-more plays
    alone: tuple[Kernel, ...] = ()  # and where it plays only what names them
    extra: tuple[str, ...] = ()  # packages its roots have besides the lab's
    seconds: float = 90.0  # for each scenario, on average
    disk: bool = False  # the root is a disk image
    cmdline: str = ""  # more of the kernel's command line
    stage: Callable[[Root, Path], None] = build.stage

    def chosen(self, every: bool) -> tuple[Kernel, ...]:
        return self.kernels if every else self.often + self.alone


KERNEL = Suite(
    name="kernel",
    kernels=tuple(kernel for kernel in KERNELS if kernel.module and not kernel.debug),
    often=tuple(kernel for kernel in PACKAGED if kernel.often),
    alone=(NATIVE,),
)
# The program is the same on every kernel, and slow to start in an emulated one.
COMMAND = replace(
    KERNEL,
    name="command",
    kernels=tuple(kernel for kernel in KERNEL.kernels if not kernel.only),
    often=(kernel_named(NEWEST),),
    extra=("python3-prometheus-client",),
)
# Debian 11, 12 and 13, each with its DKMS, and the newest kernel.
PACKAGING = Suite(
    name="packaging",
    kernels=tuple(map(kernel_named, ("5.10", "6.1", "6.12", NEWEST))),
    often=(kernel_named("6.12"),),
    extra=("ccache", "dkms", "openssl", "python3-prometheus-client"),
    seconds=600.0,
    disk=True,
    stage=packages.stage,
)
# A kernel whose first process is systemd, with udevd.
SYSTEMD = replace(
    COMMAND,
    name="systemd",
    kernels=(kernel_named(NEWEST),),
    often=(),
    alone=(),
    seconds=240.0,
    cmdline="lab.systemd",
)


@dataclass(frozen=True)
class Outcome:
    name: str
    outcome: str  # passed, failed, skipped, lost, or RACED
    message: str
    seconds: float = 0.0


@dataclass
class Played:
    """What the scenarios of one kernel came to."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)

    def add(self, settled: list[Outcome], trouble: list[str]) -> None:
        self.outcomes |= {one.name: one for one in settled}
        self.trouble += trouble

    def lacks(self, name: str) -> bool:
        return name not in self.outcomes or self.outcomes[name].outcome == RACED


def choose_scenarios(suite: Suite, kernel: Kernel, every: bool) -> list[str]:
    """The names of what is played on this kernel; every: by make test-all."""
    played = (kernel.name, "") if kernel in suite.often else (kernel.name,)
    return [
        one.name
        for one in find_scenarios(suite.name)
        if not kernel.only or one.name.partition(".")[0] in kernel.only
        if every or (one.often and one.on in played)
    ]


# What make test plays at least: where the native machine is not in the cache, on the
# newest kernel what is promised, and on the oldest that the module does its work there.
CONTRACT = (
    *("dead_reader", "full_ring", "loading", "refusals", "vhost"),
    "lifecycle.off_leaves_no_stopped_queue",
    "lifecycle.unload_leaves_no_stopped_queue",
    "lifecycle.loading_and_unloading_under_traffic_loses_nothing",
    "slow_readers.slow_reader_blocks_no_third_party",
)
BASIC = ("full_ring", "loading")
Plays = dict[Kernel, list[str]]  # the scenarios by kernel


def among(wanted: tuple[str, ...]) -> list[str]:
    """The kernel scenarios of these modules, or of these names."""
    return [
        one.name
        for one in find_scenarios("kernel")
        if one.often and one.on != NATIVE.name
        if not {one.name, one.name.partition(".")[0]}.isdisjoint(wanted)
    ]


def short_kernels(native: bool) -> tuple[Kernel, Kernel]:
    """Where make test plays; native: that machine is there."""
    # Without programs, the root of the newest kernel is that of make demo, too.
    plain = replace(kernel_named(NEWEST), applications=False)
    return NATIVE if native else plain, PACKAGED[0]


def short_plays(native: bool) -> Plays:
    """What make test plays: on the native machine all it can."""
    main, oldest = short_kernels(native)
    every = [one.name for one in find_scenarios("kernel") if one.often]
    return {main: every if native else among(CONTRACT), oldest: among(BASIC)}


def plays(suite: Suite, part: str, native: bool) -> Plays:
    """Of a suite; part: short (make test), more (make test-more), every (make
    test-all), or often: the first two together."""
    if part == "short":
        return short_plays(native) if suite is KERNEL else {}
    every = part == "every"
    whole = {one: choose_scenarios(suite, one, every) for one in suite.chosen(every)}
    if part == "more" and suite is KERNEL:
        done = {one.name: names for one, names in short_plays(native).items()}
        for kernel, names in whole.items():
            own = done.get(kernel.name, [])
            whole[kernel] = [name for name in names if name not in own]
    return {kernel: names for kernel, names in whole.items() if names}


def boot(
    machine: vm.Machine, job: vm.Job, deadline: float, progress: vm.Say
) -> tuple[list[Outcome], list[str]]:
    """One boot: the outcomes, and the kernel's trouble. The scenario that runs when the
    VM is lost, is lost."""
    lost_because, lost, trouble = None, "lost", []
    try:
        result = vm.run_job(machine, job, deadline, progress)
        trouble = result.trouble
        if result.status != 0:
            lost_because = result.reason
    except vm.VmLost as error:
        lost_because = str(error)
        lost = RACED if isinstance(error, vm.EmulatorRace) else lost
        progress(f"lab: {error}")
    path = machine.output / "result.json"
    written = json.loads(path.read_text()) if path.exists() else {}
    settled = [Outcome(**one) for one in written.get("results", [])]
    if lost_because is not None and written.get("running"):
        settled.append(Outcome(written["running"], lost, lost_because))
    if not settled:
        raise LabError(
            f"kernel {machine.root.kernel}: no scenario ran: "
            f"{lost_because or 'no result'}; see the console above"
        )
    if lost_because and all(one.outcome in GOOD for one in settled):
        trouble = [*trouble, lost_because]  # no outcome shows it
    return settled, trouble


def scenario_root(kernel: Kernel, suite: Suite = KERNEL) -> Root:
    applications = PACKAGES if kernel.applications else ()
    return ensure_root(kernel, suite.extra or applications)


@contextlib.contextmanager
def machine_for(
    kernel: Kernel, suite: Suite = KERNEL, keeps: bool = False
) -> Iterator[vm.Machine]:
    """keeps: a boot finds what the one before changed."""
    root = scenario_root(kernel, suite)
    with tempfile.TemporaryDirectory(prefix="sluice-lab-") as name:
        changes = Path(name, "changes.ext4") if keeps else None
        if changes:
            make_empty_disk(changes)
        yield vm.Machine(
            root,
            Path(name, "out"),
            # A native machine's need not be the host's: docs/kernels.md, "A host that
            # forgets its threads".
            vcpus=max(2, vm.default_vcpus(kernel)),
            memory_mb=kernel.memory_mb,
            disk=ensure_disk(root) if suite.disk or keeps else None,
            changes=changes,
            cmdline=suite.cmdline,
        )


def play_on(
    machine: vm.Machine,
    kernel: Kernel,
    names: list[str],
    progress: vm.Say,
    suite: Suite = KERNEL,
    seconds: float | None = None,
    **more: object,
) -> tuple[list[Outcome], list[str]]:
    """Play scenarios in one boot, see boot(); seconds: at most, besides the start and
    the end; more: of the job."""
    job: vm.Job = {"kind": "tests", "suite": suite.name, "names": names}
    job |= {"patience": kernel.patience, "packets_divisor": kernel.packets_divisor}
    job |= more
    suite.stage(machine.root, machine.output)
    if seconds is None:
        seconds = suite.seconds * len(names)
    deadline = (BOOT_SECONDS + seconds) * kernel.patience
    return boot(machine, job, deadline, progress)


def play(
    kernel: Kernel, names: list[str], progress: vm.Say, suite: Suite = KERNEL
) -> Played:
    """Run the scenarios on one kernel, booting again after a lost VM.

    A scenario during which the emulator lost the VM is played again.
    """
    played = Played()
    for _ in range(BOOTS):
        left = [name for name in names if played.lacks(name)]
        if left:
            with machine_for(kernel, suite) as machine:
                played.add(*play_on(machine, kernel, left, progress, suite))
    return played


def play_across_boots(
    kernel: Kernel, names: list[str], progress: vm.Say, suite: Suite
) -> Played:
    """Each scenario in a boot of its own, which finds what the one before changed."""
    played = Played()
    with machine_for(kernel, suite, keeps=True) as machine:
        for name in names:
            played.add(*play_on(machine, kernel, [name], progress, suite))
    return played


# The kernel's, on kernels that watch themselves.
DEBUGGED = replace(KERNEL, kernels=matrix.DEBUG, often=(), alone=())
# By their folders.
SUITES = {
    "kernel": KERNEL,
    "command": COMMAND,
    "packaging": PACKAGING,
    "systemd": SYSTEMD,
    "debug": DEBUGGED,
}


def left_out(part: str, native: bool) -> list[str]:
    """How much of all that make test-all plays is not played; arguments: as plays()."""
    lines = []
    for name, suite in SUITES.items():
        played, every = (plays(suite, one, native).values() for one in (part, "every"))
        number, most = sum(map(len, played)), sum(map(len, every))
        lines.append(f"tests/{name}: {most - number} of {most} plays of scenarios")
    return lines


# By what is asked for: the folders and files of tests/.
FOLDERS = {
    "short": ("unit", "kernel/test_scenarios.py"),
    "more": ("kernel", "command", "packaging"),
    "long": ("unit", *SUITES),
    **{name: (name,) for name in ("unit", *SUITES)},
}
EVERY = ("debug", "long", "systemd")  # what is not played often, too


def _build_root(suite: Suite, kernel: Kernel) -> None:
    root = scenario_root(kernel, suite)
    if suite is PACKAGING:
        packages.ensure_packages()
        packages.ensure_compiled(root)
    if suite.disk:
        ensure_disk(root)


def _build_roots(what: str, native: bool) -> None:
    """Before pytest, which would hide the progress."""
    wanted = [(KERNEL, kernel) for kernel in short_kernels(native) if what == "short"]
    for folder in FOLDERS[what]:
        if suite := SUITES.get(folder):
            also = PACKAGED if suite is KERNEL else ()  # its module is built for these
            kernels = dict.fromkeys((*also, *suite.chosen(what in EVERY)))
            wanted += [(suite, kernel) for kernel in kernels]
    with processes.workers(WORKERS) as pool:
        list(pool.map(lambda one: _build_root(*one), wanted))


def test(what: str, arguments: list[str]) -> int:
    """Run the linters, the proofs and pytest; what: one of FOLDERS."""
    python = ensure_venv()
    ensure_promtool()
    # Asked now: what is built next does not change what is played where.
    native = what in ("short", "more") and has_root(NATIVE)
    if what in ("short", "long"):
        say("linters and proofs")
        if not quick.lint() or verify.verify(short=what == "short") != FINE:
            return NO
    _build_roots(what, native)
    command = [str(python), "-B", "-m", "pytest", "-p", "no:cacheprovider"]
    command += ["--durations", "10", *(f"tests/{folder}" for folder in FOLDERS[what])]
    command += ["--every"] if what in EVERY else []
    command += ["--part", what] if what in ("short", "more") else []
    command += ["--native"] if native else []
    return processes.run([*command, *arguments], cwd=vm.REPOSITORY).returncode
