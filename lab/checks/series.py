# SPDX-License-Identifier: GPL-2.0-or-later
"""make series: the kernel patches of series/, made, checked and built.

The kernel's source comes from the distribution, or from a git tree of the user's; the
semantic patches are applied to it, and each rule must change something. What comes out
are patches for git am, applied once more to the clean source, and built one by one.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lab.cache import locked
from lab.checks import series_boot
from lab.checks.driver import driver_files
from lab.checks.semantic import SemanticPatch, insert, parse_semantic_patch, tidy
from lab.checks.series_boot import KUNIT, stage_drivers
from lab.checks.series_tree import Tree, ensure_tree, of_user
from lab.failure import LabError, UsageError
from lab.machines.build import SPARSE
from lab.machines.chroot import Root
from lab.machines.matrix import NATIVE, NEWEST, Kernel, kernel_named
from lab.machines.roots import ensure_source_root
from lab.machines.suites import find_kernel
from lab.machines.vm import REPOSITORY
from lab.report.results import read_run
from lab.report.tables import format_for_cover
from lab.setup import say
from lab.variants import SERIES, SLOTS

FOLDER = REPOSITORY / "series"
COVER = FOLDER / "cover-letter"
MEASURED = REPOSITORY / "lab" / "results" / "native-7.3.json"
# Of its table: what the series is for, and each row that it loses.
COVER_ROWS = (
    *("tcp_8_fast", "tcp_8_slow", "tcp_8_link", "udp_flood", "vhost_1", "pktgen_2"),
    *("dead_reader", "kernel_pktgen_noqueue", "kernel_pktgen_2", "kernel_pktgen_qdisc"),
    *("kernel_tcp_8_slow", "kernel_tcp_16_link"),
    *(f"kernel_tcp_{streams}_fast" for streams in (1, 8, 16)),
)
# The sources there are patches for -> a kernel that is built from them, and those on
# which the tests are played. The native one and the router's have no ftrace.
KERNELS = {
    NEWEST: (f"{NEWEST}-debug", NEWEST, NATIVE.name),
    "6.12": ("6.12-builtin", "6.12", "6.12-router"),
}
# Variant -> how a tree in which make_patches() has tagged the last gets its drivers.
_NTH = "$(git rev-list --reverse base..made | sed -n {}p)"
_LAST = "git checkout -q -f made"
_ALONE = 2  # so many patches can be taken without the others
DRIVERS = {
    SERIES: _LAST,
    SLOTS: f"git checkout -q -f {_NTH.format(_ALONE)}",
    f"{SERIES}@0": f"{_LAST}; git revert --no-edit {_NTH.format(5)}",
}
AUTHOR = "Your Name <you@example.org>"
CHECKED = (
    *("drivers/net/tun.c", "drivers/net/tap.c", "drivers/vhost/net.c"),
    *("drivers/net/tun_txq.c", "drivers/net/tun_tx_flow.c"),
    *KUNIT,
)
# What older kernels do not have as the newest has it: folders, and KUnit tests.
NEWEST_ONLY = (
    *("lib/", "tools/", "Documentation/", KUNIT[1]),
    *("drivers/net/Kconfig", "drivers/net/.kunitconfig"),
)
# MAINTAINERS has drivers/net/tun* and most folders. For lib/tests/ptr_ring_kunit.c
# get_maintainer.pl knows the list alone: see docs/mainline.md.
_CHECKPATCH = (
    "scripts/checkpatch.pl --strict --terse --show-types --no-summary "
    "--ignore FILE_PATH_CHANGES,UNKNOWN_COMMIT_ID"  # the tree has no history
)
_COMPLAINT = re.compile(r"^(?:\./)?(\S+?):\d+:(?:\d+:)? (?:warning|error): (.*)$", re.M)


@dataclass(frozen=True)
class Patch:
    """One directory of series/."""

    folder: Path
    newest: bool  # of the kernels it is for, not an older one

    @cached_property
    def message(self) -> str:
        return (self.folder / "message").read_text().strip()

    @cached_property
    def semantic(self) -> list[SemanticPatch]:
        return [
            parse_semantic_patch(f"{self.folder.name}/{path.name}", path.read_text())
            for path in sorted(self.folder.glob("*.cocci"))
        ]

    def below(self, name: str) -> dict[str, Path]:
        """Path in the kernel -> the file of files/ or of insert/."""
        top = self.folder / name
        found = {str(p.relative_to(top)): p for p in top.rglob("*") if p.is_file()}
        return self._wanted(dict(sorted(found.items())))

    def _wanted(self, files: dict[str, Any]) -> dict[str, Any]:
        """Without those that an older kernel does not have as the newest has them."""
        left_out = () if self.newest else NEWEST_ONLY
        return {file: one for file, one in files.items() if not file.startswith(left_out)}

    def new_files(self) -> dict[str, str]:
        """Path in the kernel -> text."""
        files = {file: path.read_text() for file, path in self.below("files").items()}
        return files | self._wanted(driver_files(int(self.folder.name[:2])))

    @property
    def touched(self) -> set[str]:
        """The kernel's own files that it reads or changes."""
        return set(self.below("insert")).union(*(one.looked_at for one in self.semantic))


def read_series(newest: bool) -> list[Patch]:
    """newest: without what only prepares older kernels."""
    folders = sorted(path.parent for path in FOLDER.glob("*/message"))
    wanted = [one for one in folders if not (newest and one.name.startswith("00"))]
    return [Patch(folder, newest) for folder in wanted]


def ensure_source(name: str, own: Path | None = None) -> Tree:
    """linux-source of the distribution, or what is committed in a tree of the user's;
    name: of KERNELS."""
    kernel = find_kernel(kernel_named(KERNELS[name][0]))
    root = ensure_source_root(kernel)
    tree = Tree(root, kernel.release, kernel.version, newest=name == NEWEST)
    tree = of_user(own, root) if own else tree
    touched = set().union(*(patch.touched for patch in read_series(tree.newest)))
    return ensure_tree(tree, touched)


def _apply_rules(tree: Tree, one: SemanticPatch) -> None:
    path = tree.linux / one.file
    for rule in one.rules:
        old = path.read_text()
        (tree.work / "rule.cocci").write_text(rule)
        status, log = tree.run(
            f"spatch --very-quiet --in-place --sp-file ../rule.cocci {one.file}"
        )
        new = path.read_text()
        if status != 0 or new == old:
            print(log)
            raise LabError(
                f"series/{one.name}: rule {rule.split()[0]} changes nothing in "
                f"{one.file}; the kernel's code differs: correct the rule"
            )
        path.write_text(tidy(old, new))


def _apply(tree: Tree, patch: Patch) -> bool:
    """Whether it changed anything, and if so it is committed."""
    for one in patch.semantic:
        if one.applies(tree.linux):
            _apply_rules(tree, one)
    for file, source in patch.below("insert").items():
        path = tree.linux / file
        name = f"series/{patch.folder.name}/insert/{file}"
        path.write_text(insert(name, source.read_text(), path.read_text()))
    for file, text in patch.new_files().items():
        target = tree.linux / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755 if target.suffix == ".py" else 0o644)
        tree.must(f"git add -f {file}")
    if not tree.must("git status --porcelain --untracked-files=no").strip():
        return False
    message = f"{patch.message}\n\nSigned-off-by: {AUTHOR}\n"
    (tree.work / "message").write_text(message)
    tree.must("git commit -q -a -F ../message")
    return True


def make_patches(tree: Tree, output: Path) -> list[Path]:
    """The files for git am, and a cover letter before them."""
    tree.must("git am --abort 2>/dev/null || :; git checkout -q -f base")
    for patch in read_series(tree.newest):
        subject = patch.message.splitlines()[0]
        made = _apply(tree, patch)
        say(f"series: {subject}" + ("" if made else ": no change for this kernel"))
    shutil.rmtree(tree.work / "patches", ignore_errors=True)
    what = f"RFC PATCH {'net-next' if tree.newest else tree.release}"
    tree.must("git tag -f made")
    options = f"--cover-letter --subject-prefix='{what}' -o ../patches"
    tree.must(f"git format-patch -q {options} base")
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(tree.work / "patches", output)
    cover = next(output.glob("0000-*"))
    subject, _, body = COVER.read_text().partition("\n")
    text = cover.read_text().replace("*** SUBJECT HERE ***", subject)
    blurb = f"{body.strip()}\n\n{format_for_cover(read_run(MEASURED), COVER_ROWS)}"
    text = text.replace("*** BLURB HERE ***", blurb)
    if tree.own:
        text = text.replace("\n-- \n", f"\nbase-commit: {tree.version}\n-- \n")
    cover.write_text(text)
    return sorted(path for path in output.glob("*.patch") if path != cover)


def _complaints(tree: Tree) -> Counter[str]:
    """What the compiler with W=1 and sparse say of the objects, without lines."""
    sources = " ".join(file for file in CHECKED if (tree.linux / file).exists())
    objects = sources.replace(".c", ".o")
    log = tree.must(f"touch {sources}; make -s W=1 {SPARSE} {objects} 2>&1")
    return Counter(f"{file}: {text}" for file, text in _COMPLAINT.findall(log))


def check_patches(tree: Tree, files: list[Path]) -> list[str]:
    """git am, checkpatch, and one build after the other; what is wrong."""
    tree.must("git checkout -q -f base")
    known = _complaints(tree)
    wrong = []
    for path in files:
        shutil.copy(path, tree.work / "next.patch")
        tree.must("git am -q ../next.patch")
        _, log = tree.run(f"{_CHECKPATCH} ../next.patch")
        wrong += [f"{path.name}: {line}" for line in log.splitlines()]
        now = _complaints(tree)
        wrong += [f"{path.name}: {line}" for line in (now - known)]
        say(f"series: {path.name}: applied and built")
    return wrong


def require_source(kernel: Kernel) -> None:
    """UsageError if the newest source, which the patches are for, is not its own."""
    if kernel.release != kernel_named(NEWEST).release:
        raise UsageError(
            f"kernel {kernel.name}: the series' drivers are built for {NEWEST} and "
            f"{NEWEST}-native only; choose one of them"
        )


def stage_newest_drivers(root: Root, output: Path, names: set[str]) -> None:
    """Those of the newest source, for a root of that kernel, each in a folder of its
    name (of DRIVERS): see stage_drivers()."""
    with locked("series"), tempfile.TemporaryDirectory() as folder:
        tree = ensure_source(NEWEST)
        make_patches(tree, Path(folder))
        for name in sorted(names):
            tree.must(DRIVERS[name])
            stage_drivers(root, tree.linux, output / name)


def _boot(tree: Tree, names: Sequence[str]) -> None:
    """Play the tests on these kernels, and those of the first patches on the native."""
    newest = tree if tree.newest else ensure_source(NEWEST)
    for name in names:
        series_boot.boot(kernel_named(name), tree.linux, newest.linux)
    if tree.newest:
        tree.must(DRIVERS[SLOTS])
        series_boot.boot(NATIVE, tree.linux, newest.linux, SLOTS, _ALONE)


def series(source: str, output: Path, booted: bool, own: Path | None = None) -> int:
    """Make, write and check the patches for this source; 0 or an error.

    booted: play the tests as well; own: a git tree of the user's, in place of source.
    """
    if own and booted:
        raise UsageError(
            f"{own}: --boot plays the tests on packaged kernels only; leave out --tree"
        )
    with locked("series"):
        tree = ensure_source(source, own)
        files = make_patches(tree, output)
        wrong = check_patches(tree, files)
        if booted and not wrong:
            _boot(tree, KERNELS[source][1:])
    if wrong:
        print("\n".join(wrong))
        raise LabError(f"series: {len(wrong)} complaints (see above); correct series/")
    print(f"{len(files)} patches against Linux {tree.version} in {output}")
    return 0
