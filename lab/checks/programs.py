# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds and runs the programs of proofs/Makefile: the sources of the module and of the
series in user space, as they are or with a fault put in.

A fault is put into a copy of the folder in which all is built, so that make compiles
only what it changes.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.cache import cache_dir, cached, digest
from lab.checks.driver import driver_files
from lab.failure import LabError
from lab.machines.build import KMOD, MEMORY_MODEL, RING, ensure_kernel_files
from lab.machines.chroot import Root, run_in_root
from lab.machines.roots import unpack
from lab.machines.vm import REPOSITORY
from lab.processes import last_line
from lab.setup import say

PROOFS = REPOSITORY / "proofs"
SERIES = REPOSITORY / "series"
HELPERS = SERIES / "01-ptr_ring" / "ptr_ring.cocci"
FINE, FOUND = "fine", "found"  # no fault; a fault was found
# A fault is found within so many seeds; by the adversary, within so many seconds.
SEEDS_MOST = {"steps": 40000, "adversary": 60}
FOLDERS = ("policy", "ring", "series")  # of proofs/; guards.toml names the programs
_COMPLAINT = re.compile(
    r"^(found: |seed \d+(, step \d+)?: |SUMMARY: \w+Sanitizer).*"
    r"|^.*(TOO MUCH$|self-test: .* of a ptr_ring is not.*)",
    re.MULTILINE,
)
# The tools.
SUITE = "forky"  # the first with herdtools7
PACKAGES = (
    *("base-files", "coreutils", "dash", "gcc", "herdtools7", "libc6-dev", "make"),
    "spin",
)
MOUNTED = ("dev", "mnt", "proc", "tmp")  # see chroot.run_in_root()


@dataclass(frozen=True)
class Fault:
    """A guard that is taken out, or a field that means something else."""

    program: str  # must find it
    name: str
    file: str
    edits: dict[str, str]  # expression -> what is there instead
    said: str = ""  # by the program of it; if empty, anything

    def put_into(self, text: str) -> str:
        for pattern, instead in self.edits.items():
            text, count = re.subn(pattern, instead, text)
            if not count:
                raise LabError(
                    f"{self.name}: {self.file} does not match '{pattern}'; "
                    "correct proofs/*/guards.toml"
                )
        return text


def read_faults(folder: str) -> list[Fault]:
    listed = tomllib.loads((PROOFS / folder / "guards.toml").read_text())
    if patterns := listed.get("patterns"):
        return [_meaning(patterns, *one) for one in listed["ring"].items()]
    return [
        Fault(program, name, file, {re.escape(old): new.replace("\\", r"\\")})
        for file, guards in listed.items()
        for name, (program, old, new) in guards.items()
    ]


def _meaning(patterns: dict[str, str], name: str, listed: dict[str, str]) -> Fault:
    """Another meaning of fields of a ring, and what the self-test must say of it."""
    edits = {patterns[one]: new for one, new in listed.items() if one != "said"}
    said = f"self-test: {listed['said']} of a ptr_ring is not"
    return Fault("ring", name, "headers/linux/ptr_ring.h", edits, said)


def ensure_provers() -> Root:
    """A root to run the tools in: from the cache, or unpacked now."""
    key = digest(SUITE, *PACKAGES, *MOUNTED)
    final = cache_dir() / "provers" / key
    with cached(final) as work:
        if work:
            say(f"provers: unpacking those of {SUITE} (less than a minute)")
            unpack("provers", SUITE, PACKAGES, work / "tree")
            for folder in MOUNTED:
                (work / "tree" / folder).mkdir(exist_ok=True)
    return Root("provers", final / "tree", key=key)


def _stage(folder: Path, kernel: Path) -> None:
    """Fill a folder with proofs/ and all that it takes; kernel: the files of its
    source."""
    shutil.copytree(PROOFS, folder)
    shutil.copytree(kernel / MEMORY_MODEL, folder / "litmus", dirs_exist_ok=True)
    shutil.copytree(KMOD, folder / "kmod")
    driver = {Path(file).name: text for file, text in driver_files().items()}
    for name in ("tun_tx_flow_kunit.c", "tun_backpressure.py"):
        del driver[name]
    for name, text in driver.items():
        (folder / "series" / name).write_text(text)
    # What the semantic patch adds.
    added = re.findall(r"^\+(.*\n)", HELPERS.read_text(), re.MULTILINE)
    (folder / "series" / "helpers.h").write_text("".join(added))
    texts = [path.read_text() for path in (kernel / RING, *KMOD.glob("*.[ch]"))]
    for name in re.findall(r"#include <(.+?)>", "".join([*texts, *driver.values()])):
        if not name.startswith("asm/"):  # which the compiler has
            path = folder / "headers" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    shutil.copy(kernel / RING, folder / "headers" / "linux")


@dataclass(frozen=True)
class Workshop:
    """A staged folder, and the programs that are built in it."""

    folder: Path
    tools: Root

    def run(self, script: str) -> tuple[int, str]:
        return run_in_root(self.tools, self.folder, script)

    def build(self, program: str) -> str | None:
        """The compiler's complaints, if it does not build."""
        status, log = self.run(f"make -s PROGRAM={program}")
        return log if status else None

    def must_build(self, *programs: str) -> None:
        for program in programs:
            if (log := self.build(program)) is not None:
                print(log)
                raise LabError(f"proofs/: {program} does not build (see above)")

    def digest(self, *programs: str) -> str:
        """Of what the compiler made."""
        folders = [self.folder / "out" / program for program in programs]
        objects = [path for one in folders for path in sorted(one.rglob("*.o"))]
        return digest(*(path.read_bytes() for path in objects))

    def ask(self, program: str, *arguments: int) -> tuple[str, str]:
        """The program's verdict, and what it adds to that.

        steps takes the first seed, how many, and the seconds at most; adversary takes
        its seed and the seconds.
        """
        command = " ".join([f"out/{program}/run", *map(str, arguments)])
        status, log = self.run(command)
        return parse_verdict(log, status)

    @contextlib.contextmanager
    def changed(self, name: str, file: str, text: str) -> Iterator[Workshop]:
        """A copy in which one file has another text."""
        folder = self.folder.with_name(name)
        others = shutil.ignore_patterns("litmus", "model")
        shutil.copytree(self.folder, folder, ignore=others)
        (folder / file).write_text(text)
        try:
            yield Workshop(folder, self.tools)
        finally:
            shutil.rmtree(folder)

    def ask_fault(self, fault: Fault) -> tuple[str, str]:
        """The verdict of the program that must find it."""
        text = fault.put_into((self.folder / fault.file).read_text())
        name = f"{fault.program}-{fault.name}"  # a program's are unique
        with self.changed(name, fault.file, text) as copy:
            if copy.build(fault.program) is not None:
                return "no verdict", "does not build"
            seeds = [0, SEEDS_MOST[fault.program]] if fault.program in SEEDS_MOST else []
            said, detail = copy.ask(fault.program, *seeds)
        if said == FOUND and fault.said not in detail:
            return "no verdict", f"says '{detail}', not '{fault.said}'"
        return said, detail


@contextlib.contextmanager
def workshop() -> Iterator[Workshop]:
    """A folder that goes when it is left."""
    tools, kernel = ensure_provers(), ensure_kernel_files()
    with tempfile.TemporaryDirectory(prefix="sluice-proofs-") as name:
        folder = Path(name) / "proofs"
        _stage(folder, kernel)
        yield Workshop(folder, tools)


def parse_verdict(log: str, status: int) -> tuple[str, str]:
    """A program's verdict, and its first complaint or what it did."""
    if complaint := _COMPLAINT.search(log):
        return FOUND, " ".join(complaint[0].removeprefix("found: ").split())
    fine = re.search(r"^fine: (?!0 )(.*)", log, re.MULTILINE)
    return (FINE, fine[1]) if fine and not status else ("no verdict", last_line(log))
