# SPDX-License-Identifier: GPL-2.0-or-later
"""Prometheus' own tool takes the metrics and the alert rules."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from lab.setup import promtool
from sluice.cli import main
from tests.unit._machine import Machine

TREE = Path(__file__).parents[2]
RULES = TREE / "packaging/prometheus/sluice.rules.yml"


@pytest.fixture
def tool() -> str:
    found = promtool()
    if found is None:
        pytest.skip("no promtool; make check fetches it")
    return str(found)


@pytest.mark.parametrize("loaded", [True, False])
def test_metrics_have_nothing_to_correct(machine: Machine, capsys, tool, loaded) -> None:
    machine.loaded = loaded
    assert main(["metrics"]) == 0
    text = capsys.readouterr().out
    command = [tool, "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_alerts_are_raised_for_what_they_name_and_nothing_else(tool, tmp_path) -> None:
    for path in (RULES, TREE / "tests/prometheus/alerts.yml"):
        shutil.copy(path, tmp_path)
    command = [tool, "test", "rules", "alerts.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_its_section_of_the_handbook() -> None:
    handbook = (TREE / "docs/operating.md").read_text()
    sections = {name.lower() for name in re.findall(r"^### (\w+)$", handbook, re.M)}
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]:
        page, _, section = rule["annotations"]["runbook_url"].partition("#")
        assert page == "docs/operating.md"
        assert section == rule["alert"].lower() and section in sections
