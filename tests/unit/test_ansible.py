# SPDX-License-Identifier: GPL-2.0-or-later
"""The example for a fleet is as ansible-lint's strictest profile wants it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "packaging/ansible/sluice.yml"


def lint(path: Path) -> subprocess.CompletedProcess[str]:
    """In the example's own folder, with the tools beside this python."""
    tools = Path(sys.executable).parent
    return subprocess.run(
        [sys.executable, "-B", "-m", "ansiblelint", "--offline", "--nocolor",
         "--profile", "production", str(path)],
        cwd=path.parent,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )


def test_lint_is_silent() -> None:
    done = lint(EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint_notices_a_command_that_is_not_a_change(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE.parent, tmp_path, dirs_exist_ok=True)
    tasks = tmp_path / "roles/sluice/tasks/main.yml"
    tasks.write_text(tasks.read_text().replace("  changed_when: false\n", ""))
    done = lint(tmp_path / "sluice.yml")
    assert done.returncode != 0 and "no-changed-when" in done.stdout, done.stdout
