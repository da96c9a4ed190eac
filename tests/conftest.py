# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot for each kernel and suite; its progress is shown while it lasts.

A module of tests that asks for what was played names its suite as SUITE.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.checks.testing import Played, Suite, choose_scenarios, play
from lab.failure import LabError, Unsuitable
from lab.guest.scenarios import find_scenarios
from lab.machines.matrix import Kernel


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every",
        action="store_true",
        help="play what is not played often, too: scenarios and kernels",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for what was played is made for each kernel."""
    if "played" not in metafunc.fixturenames:
        return
    suite, every = metafunc.module.SUITE, metafunc.config.getoption("--every")
    kernels = suite.chosen(every)
    if "name" not in metafunc.fixturenames:
        metafunc.parametrize("kernel", kernels, ids=lambda kernel: kernel.name)
        return
    played = [
        pytest.param(name, kernel, id=f"{name}-{kernel.name}")
        for kernel in kernels
        for name in choose_scenarios(suite, kernel, every)
    ]
    assert played or not kernels, f"tests/{suite.name}/scenarios: holds no scenario"
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
    every = pytestconfig.getoption("--every")

    @functools.lru_cache(maxsize=None)
    def attempt(suite: Suite, kernel: Kernel) -> Played | LabError:
        show(f"\n    kernel {kernel.name}: playing the {suite.name} scenarios")
        try:
            return play(kernel, choose_scenarios(suite, kernel, every), show, suite)
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
