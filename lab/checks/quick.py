# SPDX-License-Identifier: GPL-2.0-or-later
"""The quick lane: linters, types, unit tests and one build of the module."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lab import processes
from lab.cache import cache_dir
from lab.failure import FINE, NO
from lab.machines import build
from lab.machines.matrix import Kernel
from lab.machines.roots import ensure_root
from lab.machines.vm import REPOSITORY, read_text
from lab.report.results import read_git
from lab.setup import ensure_commands, ensure_promtool, ensure_venv, say

# The command -> the Debian package that has it.
LINTERS = {
    "man": "man-db",
    "mandoc": "mandoc",
    "shellcheck": "shellcheck",
    "systemd-analyze": "systemd",  # of tests/unit/test_units.py
}
# Columns at which groff, too, has no complaint about the manual pages.
WIDTHS = (60, 80)
WORKERS = 2  # steps at a time

# By name: what there is to correct, empty if nothing.
Steps = dict[str, Callable[[], str]]


def run_tool(*command: str | Path) -> str:
    """A tool's output if it complains."""
    done = processes.run(
        [str(word) for word in command],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout.strip() or "failed" if done.returncode else ""


def lint_manual(names: list[str]) -> str:
    """mandoc's complaints, which knows only the pages it has an index of, and groff's."""
    pages = [name for name in names if name.startswith("man/")]
    output = run_tool("mandoc", "-T", "lint", "-W", "warning", *pages)
    lines = [line for line in output.split("\n") if "mandoc.db" not in line]
    formats = "! MANWIDTH=$0 man --warnings -l $1 2>&1 >/dev/null | grep ."
    for width in WIDTHS:
        lines += [run_tool("sh", "-c", formats, str(width), page) for page in pages]
    return "\n".join(filter(None, lines))


def static_steps(python: Path) -> Steps:
    """Everything that only reads the sources."""
    tracked = read_git("ls-files").splitlines()
    names = [name for name in tracked if not name.endswith((".svg", ".json"))]
    is_shell = re.compile(r"#!.*[/ ](ba)?sh\b").match
    shell = [name for name in names if is_shell(read_text(REPOSITORY / name))]
    builders = ("tests/kernel/test_cross.py", "tests/kernel/test_selinux.py")
    typed = ("lab", "sluice", *builders)
    tools: dict[str, tuple[str | Path, ...]] = {
        "ruff": (python.with_name("ruff"), "check", "--no-cache", "."),
        "mypy": (python.with_name("mypy"), "--cache-dir", cache_dir() / "mypy", *typed),
        "codespell": (python.with_name("codespell"), *names),
        "shellcheck": ("shellcheck", *shell),
        "prose": (python, "-B", "lab/checks/prose.py"),
    }
    steps: Steps = {name: partial(run_tool, *words) for name, words in tools.items()}
    return steps | {"man pages": lambda: lint_manual(names)}


def _timed(name: str, run: Callable[[], str]) -> bool:
    started = time.monotonic()
    complaints = run()
    # Ctrl-C ends the tools, too: that is no complaint.
    if complaints and processes.interrupted.wait(0.3):
        return False
    outcome = "failed" if complaints else "fine"
    lines = [f"{outcome:6}  {name} ({time.monotonic() - started:.0f} s)", complaints]
    print("\n".join(filter(None, lines)), flush=True)
    return not complaints


def run_steps(steps: Steps) -> bool:
    """All of them, whatever the others come to; whether all are fine."""
    with processes.workers(WORKERS) as pool:
        return all(list(pool.map(_timed, steps.keys(), steps.values())))


def lint() -> bool:
    ensure_commands(LINTERS)
    return run_steps(static_steps(ensure_venv()))


def check(kernel: Kernel) -> int:
    ensure_commands(LINTERS)
    ensure_promtool()
    python = ensure_venv()
    root = ensure_root(kernel)
    say(f"linters, unit tests, and the module on Linux {kernel.name}")
    pytest = (python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    steps: Steps = {
        "unit tests": lambda: run_tool(*pytest, "tests/unit"),
        f"module on {kernel.name}": lambda: "\n".join(build.complaints(root)),
        **static_steps(python),
    }
    return FINE if run_steps(steps) else NO
