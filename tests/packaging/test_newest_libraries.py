# SPDX-License-Identifier: GPL-2.0-or-later
"""The command with the newest libraries of PyPI; all other tests have the oldest that
it supports, and the guests have Debian's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.setup import REQUIREMENTS

LIBRARIES = ("click", "prometheus-client", "pyroute2")
REPOSITORY = Path(__file__).resolve().parents[2]
UNIT = REPOSITORY / "tests" / "unit"


def unpin(requirements: str) -> str:
    """The same requirements, the command's libraries without a version."""
    names = "|".join(LIBRARIES)
    text, count = re.subn(rf"^({names})==.*$", r"\1", requirements, flags=re.MULTILINE)
    assert count == len(LIBRARIES), f"{LIBRARIES}: not each is in {REQUIREMENTS.name}"
    return text


def command_tests() -> list[str]:
    return [
        str(path)
        for path in sorted(UNIT.glob("test_*.py"))
        if "from sluice" in path.read_text()
    ]


def test_command_works_with_the_newest_libraries(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    chosen = pytestconfig.getoption
    if not chosen("--every") and chosen("--part") != "more":
        pytest.skip("takes the newest libraries from PyPI; make test-more has it")
    requirements, venv = tmp_path / "requirements.txt", tmp_path / "venv"
    requirements.write_text(unpin(REQUIREMENTS.read_text()))
    python = [str(venv / "bin/python"), "-B", "-m"]
    pip = [*python, "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([*pip, "-r", str(requirements)], check=True)
    unit = [*python, "pytest", "-q", "-p", "no:cacheprovider", *command_tests()]
    # readline, which pytest imports, exports the size of a terminal, and that of others
    # would not be seen.
    outer = ("COLUMNS", "LINES")
    environment = {name: text for name, text in os.environ.items() if name not in outer}
    done = subprocess.run(
        unit, cwd=REPOSITORY, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
