# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's command as it is called: wrong arguments, a reader that leaves."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from lab.__main__ import PARSER, SUBCOMMANDS, run
from lab.checks import measure
from lab.failure import LabError, NOT_SUITABLE
from lab.machines.vm import REPOSITORY, VCPUS


def lab(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-B", "-m", "lab", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bench", "--rounds", "0"], "must be above 0"),
        (["bench", "--rounds", "x"], "invalid int value"),
        (["bench", "--seconds", "-1"], "must be above 0"),
        (["bench", "--seconds", "inf"], "must be above 0"),
        (["demo", "--kernel", "nonsense"], "choose"),
        (["demo", "--rows", "nonsense"], "choose from"),
        (["report", "/nonexistent"], "cannot be read"),
        (["bench", "--json", "/proc/there/is/none"], "cannot be written"),
        (["demo", "--json", "/proc/there/is/none"], "cannot be written"),
        (["mutants", "--files", "nonsense.c"], "invalid choice"),
        (["test", "kernel", "--tree", "/nonexistent"], "no source tree of a kernel"),
        (["nonsense"], "invalid choice"),
        ([], "newest"),  # the end of the help
    ],
)
def test_wrong_argument(arguments, says) -> None:
    done = lab(*arguments)
    assert done.returncode == 2, done
    assert says in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "machine"),
    [
        (["bench"], (VCPUS, False)),
        (["bench", "--counted"], (VCPUS, True)),
        (["apps"], (VCPUS, False)),
        (["apps", "--counted"], (VCPUS, True)),
        (["cost"], (1, True)),
    ],
)
def test_machine_that_measures(arguments, machine, monkeypatch) -> None:
    plans = []

    def planned(plan: measure.Plan, _) -> None:
        plans.append(plan)
        raise LabError("enough")

    monkeypatch.setattr(measure, "measure", planned)
    with pytest.raises(LabError, match="enough"):
        run(arguments)
    assert [(plan.vcpus, plan.counted) for plan in plans] == [machine]


OLD_PYTHON = """
import runpy, sys
sys.version_info, sys.argv = (3, 10), ["lab", "clean"]
sys.modules["tomllib"] = None  # as there
runpy.run_module("lab", run_name="__main__")
"""


def test_old_python_is_refused_in_one_line() -> None:
    command = [sys.executable, "-B", "-c", OLD_PYTHON]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == NOT_SUITABLE, done
    assert done.stderr == "lab: python3: older than 3.11; use a newer one\n"


def test_reader_of_the_table_may_leave_early() -> None:
    argv = [sys.executable, "-B", "-m", "lab", "report", "lab/results/native-7.3.json"]
    with subprocess.Popen(
        argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_every_subcommand_has_help() -> None:
    for name, command in SUBCOMMANDS.choices.items():
        assert command.format_help().startswith("usage: "), name


@pytest.mark.parametrize("name", SUBCOMMANDS.choices)
def test_subcommand_takes_its_options(name: str) -> None:
    needed = {"again": ["module.function"], "report": ["file"]}
    given = vars(PARSER.parse_args([name, *needed.get(name, [])]))
    inspect.signature(given.pop("function")).bind(**given)
