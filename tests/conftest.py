# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot for each kernel and suite; its progress is shown while it lasts.

A module of tests that asks for what was played names its suite as SUITE.
"""

from __future__ import annotations

import functools

import pytest

from lab.errors import LabError
from lab.matrix import Kernel
from lab.testing import Played, Suite, play, read_scenarios


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
    if "name" in metafunc.fixturenames:
        names = read_scenarios(suite, every)
        assert names, f"{suite.scenarios}: holds no scenario"
        metafunc.parametrize("name", names)
    kernels = suite.chosen(every)
    metafunc.parametrize("kernel", kernels, ids=lambda kernel: kernel.name)


@pytest.fixture(scope="session")
def play_once(pytestconfig: pytest.Config):
    """Plays the scenarios of a suite on a kernel when first asked about it."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    every = pytestconfig.getoption("--every")

    def show(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"    {line}", flush=True)

    @functools.lru_cache(maxsize=None)
    def attempt(suite: Suite, kernel: Kernel) -> Played | LabError:
        show(f"\n    kernel {kernel.name}: playing the {suite.name} scenarios")
        try:
            return play(kernel, read_scenarios(suite, every), show, suite)
        except LabError as error:
            return error

    return attempt


@pytest.fixture
def played(request: pytest.FixtureRequest, play_once):
    """What the scenarios of this module's suite came to, by kernel."""

    def of(kernel: Kernel) -> Played:
        result = play_once(request.module.SUITE, kernel)
        if isinstance(result, LabError):
            pytest.fail(str(result), pytrace=False)
        return result

    return of
