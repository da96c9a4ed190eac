# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds and runs the module's sources in user space: proofs/policy.

A harness is built once; of a mutant only what it changes is compiled again.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.checks.provers import RING
from lab.failure import LabError
from lab.machines.build import KMOD
from lab.machines.chroot import last_line
from lab.machines.vm import REPOSITORY

POLICY = REPOSITORY / "proofs" / "policy"
FINE, FOUND = "fine", "found"  # no fault; a fault was found

# Runs a script in a directory, where the compiler is: its status and output.
Runner = Callable[[Path, str], tuple[int, str]]


@dataclass(frozen=True)
class Variant:
    """One way to run the sources."""

    name: str
    plain: tuple[str, ...]  # files of POLICY
    module: tuple[str, ...] = ()  # the module's
    watching: tuple[str, ...] = ()  # of POLICY, compiled as the module is
    defines: str = ""
    watched: str = ""  # how the module is compiled
    linked: str = ""
    includes: bool = False  # its files include the module's


WORLD = ("backstop.c", "device.c", "direct.c", "hook.c", "layout.c", "queue.c")
STEPS = Variant(
    "steps", ("world.c",), WORLD, ("driver.c",), "-DSTEPS", "-fsanitize=thread"
)
THREADS = Variant(
    "threads",
    ("world.c", "driver.c"),
    WORLD,
    defines="-DTHREADS",
    watched="-g -fsanitize=thread",
    linked="-fsanitize=thread",
)
ADDRESSES = Variant(
    "addresses",
    ("world.c",),
    WORLD,
    ("driver.c",),
    "-DTHREADS -DADDRESSES",
    "-g -fsanitize=address",
    "-fsanitize=address",
)
PACE = Variant("pace", ("pace.c",), ("queue.c",))
EXAMPLES = Variant(
    "examples",
    (),
    watching=("examples.c",),
    watched="-fsanitize=bounds -fsanitize-undefined-trap-on-error",
    includes=True,
)


@dataclass(frozen=True)
class Seeded:
    """A guard of the real source, taken out; proofs/policy/guards.toml explains it."""

    program: str
    name: str
    old: str
    new: str
    file: str = "queue.c"
    short: bool = True


def read_guards(folder: Path) -> list[Seeded]:
    """Those that a folder of proofs/ lists."""
    listed = tomllib.loads((folder / "guards.toml").read_text())
    return [Seeded(program, **one) for program, found in listed.items() for one in found]


def headers_named(sources: list[str]) -> set[str]:
    return {name for text in sources for name in re.findall(r"#include <(.+?)>", text)}


def make_empty(folder: Path, headers: Iterable[str]) -> None:
    """Headers that are included, and of which nothing is needed."""
    for name in headers:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def seeded_text(seeded: Seeded, source: Path = KMOD) -> str:
    """The file with the guard taken out."""
    text = (source / seeded.file).read_text()
    if text.count(seeded.old) != 1:
        raise LabError(
            f"{seeded.name}: {source.name}/{seeded.file} does not say "
            f"'{seeded.old}' once; correct proofs/*/guards.toml"
        )
    return text.replace(seeded.old, seeded.new)


class Harness:
    """A variant that is built: folder/base holds its objects and ./world."""

    def __init__(
        self, variant: Variant, folder: Path, ring: Path, run: Runner
    ) -> None:
        self.variant, self.folder, self._run = variant, folder, run
        shutil.copytree(KMOD, folder / "kmod")
        shutil.copytree(POLICY, folder / "policy")
        self._empty_headers((ring / RING).read_text())
        names = [*variant.module, *variant.watching]
        lines = [self._compile(f"../{self._where(name)}", "..") for name in names]
        lines += [f"{self._gcc('..')} -c ../policy/{name}" for name in variant.plain]
        (folder / "base").mkdir()
        status, log = self._run(folder, "\n".join(["cd base", *lines, self._link()]))
        if status != 0:
            print(log)
            raise LabError(f"proofs/policy: {variant.name} does not build (see above)")

    def _empty_headers(self, ring: str) -> None:
        texts = [path.read_text() for path in KMOD.glob("*.[ch]")]
        names = headers_named([*texts, ring])
        names = {name for name in names if not name.startswith("asm/")}
        make_empty(self.folder / "empty", names)
        (self.folder / "empty" / "linux" / RING).write_text(ring)

    def _where(self, name: str) -> str:
        return f"kmod/{name}" if name in self.variant.module else f"policy/{name}"

    def _gcc(self, top: str, kmod: str = "") -> str:
        flags = "-std=gnu11 -O1 -w -fno-pie -include"
        folders = f"-I{top}/empty -I{kmod or f'{top}/kmod'} -I{top}/policy"
        defines = self.variant.defines
        return f"gcc {flags} {top}/policy/kernel.h {folders} {defines}"

    def _compile(self, path: str, top: str, kmod: str = "") -> str:
        return f"{self._gcc(top, kmod)} {self.variant.watched} -c {path}"

    def _link(self, objects: str = "*.o") -> str:
        return f"gcc {self.variant.linked} -no-pie -pthread {objects} -o world"

    def mutant(self, name: str, changed: Mapping[str, str]) -> str | None:
        """Build ./world with these texts instead of the module's: its folder.

        None if it does not compile.
        """
        work = self.folder / name
        (work / "kmod").mkdir(parents=True)
        headers = any(file.endswith(".h") for file in changed)
        if headers:
            shutil.copytree(KMOD, work / "kmod", dirs_exist_ok=True)
        for file, text in changed.items():
            (work / "kmod" / file).write_text(text)
        module = self.variant.module
        again = [f"kmod/{file}" for file in module if headers or file in changed]
        if self.variant.includes:
            again = [f"../policy/{file}" for file in self.variant.watching]
        kept = {path.stem for path in (self.folder / "base").glob("*.o")}
        kept -= {Path(path).stem for path in again}
        lines = [f"cd {name}"]
        kmod = "kmod -I../kmod" if not headers else "kmod"
        lines += [self._compile(path, "..", kmod) for path in again]
        objects = [f"../base/{stem}.o" for stem in sorted(kept)]
        lines += [self._link(" ".join(["*.o", *objects]))]
        status, _ = self._run(self.folder, "\n".join(lines))
        return name if status == 0 else None

    def ask(self, *arguments: int, name: str = "base") -> tuple[str, str]:
        """The verdict of ./world, and what it adds to that.

        A variant with seeds takes the first, how many, and the seconds at most.
        """
        command = " ".join(["./world", *map(str, arguments)])
        status, log = self._run(self.folder, f"cd {name} && {command}")
        parse = PARSERS.get(self.variant.name, parse_world)
        return parse(log, status)

    def forget(self, name: str) -> None:
        shutil.rmtree(self.folder / name, ignore_errors=True)


def parse_world(log: str, _status: int = 0) -> tuple[str, str]:
    """The verdict of world.c, and its first complaint or what it did."""
    for line in log.splitlines():
        if re.match(r"seed \d+(, step \d+)?: |SUMMARY: \w+Sanitizer", line):
            return FOUND, line
    fine = re.search(r"^fine: (\d+) seeds, (\d+) packets, .*?(\d+) stops", log, re.M)
    if not fine or not int(fine[1]):
        return "no verdict", last_line(log)
    seeds, packets, stops = (int(fine[i]) for i in (1, 2, 3))
    return FINE, f"{seeds} seeds, {packets:,} packets, {stops:,} stops"


def parse_paces(log: str, status: int) -> tuple[str, str]:
    """The verdict of pace.c, and the first reader it complains of."""
    lines = log.strip().splitlines()
    wrong = [line for line in lines if line.endswith("TOO MUCH")]
    if wrong:
        return FOUND, " ".join(wrong[0].split())
    if status or not lines:
        return "no verdict", last_line(log)
    return FINE, f"{len(lines)} readers"


def parse_examples(log: str, status: int) -> tuple[str, str]:
    """The verdict of examples.c, and how many there are or the one that fails."""
    said = last_line(log)
    fine = re.fullmatch(r"fine: (\d+ examples)", said)
    return (FINE, fine[1]) if fine and not status else (FOUND, said)


PARSERS = {PACE.name: parse_paces, EXAMPLES.name: parse_examples}
