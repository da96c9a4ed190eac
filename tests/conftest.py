# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot for each kernel and suite; its progress is shown while it lasts.

A module of tests that asks for what was played names its suite as SUITE.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.checks.testing import Played, Plays, Suite, left_out, play, plays
from lab.failure import LabError, Unsuitable
from lab.guest.scenarios import find_scenarios
from lab.machines.matrix import Kernel


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every",
        action="store_true",
        help="play what is not played often, too: scenarios and kernels",
    )
    parser.addoption(
        "--part",
        choices=("short", "more"),
        help="play what make test plays, or what it leaves to make test-more",
    )
    parser.addoption(
        "--native",
        action="store_true",
        help="make test has the native machine, and plays most of it there",
    )


def part_of(config: pytest.Config) -> str:
    """As lab.checks.testing.plays() takes it."""
    every = "every" if config.getoption("--every") else "often"
    return config.getoption("--part") or every


def plays_of(config: pytest.Config, suite: Suite) -> Plays:
    return plays(suite, part_of(config), config.getoption("--native"))


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if part := config.getoption("--part"):
        terminalreporter.section("left out here; make test-all plays everything")
        for line in left_out(part, config.getoption("--native")):
            terminalreporter.write_line(line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for what was played is made for each kernel."""
    if "played" not in metafunc.fixturenames:
        return
    suite = metafunc.module.SUITE
    found = plays_of(metafunc.config, suite)
    if "name" not in metafunc.fixturenames:
        metafunc.parametrize("kernel", found, ids=lambda kernel: kernel.name)
        return
    played = [
        pytest.param(name, kernel, id=f"{name}-{kernel.name}")
        for kernel, names in found.items()
        for name in names
    ]
    if part_of(metafunc.config) not in ("short", "more"):
        empty = f"tests/{suite.name}/scenarios: holds no scenario"
        assert played or not suite.chosen(metafunc.config.getoption("--every")), empty
    metafunc.parametrize(("name", "kernel"), played)


@pytest.fixture(scope="session")
def show(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Shows a line of progress at once."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def show(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"    {line}", flush=True)

    return show


@pytest.fixture(scope="session")
def play_once(pytestconfig: pytest.Config, show: Callable[[str], None]):
    """Plays the scenarios of a suite on a kernel when first asked about it."""

    @functools.cache
    def attempt(suite: Suite, kernel: Kernel) -> Played | LabError:
        show(f"\n    kernel {kernel.name}: playing the {suite.name} scenarios")
        names = plays_of(pytestconfig, suite)[kernel]
        try:
            return play(kernel, names, show, suite)
        except LabError as error:
            return error

    return attempt


@pytest.fixture
def played(request: pytest.FixtureRequest, play_once):
    """What the scenarios of this module's suite came to, by kernel."""

    def of(kernel: Kernel) -> Played:
        result = play_once(request.module.SUITE, kernel)
        if kernel.native and isinstance(result, Unsuitable):
            pytest.skip(str(result))
        if isinstance(result, LabError):
            pytest.fail(str(result), pytrace=False)
        return result

    return of


@pytest.fixture
def assert_module_passes(pytestconfig: pytest.Config, show: Callable[[str], None]):
    """For scenarios that need a machine of their own: make test-all only."""
    if not pytestconfig.getoption("--every"):
        pytest.skip("needs a machine of its own; make test-all has it")

    def assert_passes(
        kernel: Kernel, beginning: str, suite: Suite, extra: tuple[str, ...]
    ) -> None:
        found = [one.name for one in find_scenarios(suite.name)]
        names = [name for name in found if name.startswith(beginning)]
        assert names, f"{beginning}: no scenario"
        played = play(kernel, names, show, replace(suite, extra=extra or suite.extra))
        assert played.trouble == []
        outcomes = {name: one.outcome for name, one in played.outcomes.items()}
        assert outcomes == dict.fromkeys(names, "passed"), played.outcomes

    return assert_passes
