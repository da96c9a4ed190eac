# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot for each kernel; its progress is shown while it lasts."""

from __future__ import annotations

import functools

import pytest

from lab.errors import LabError
from lab.matrix import KERNELS, Kernel
from lab.testing import Played, play, read_scenarios


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-kernel",
        action="store_true",
        help="play what is not played often, kernels and scenarios, too",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for what was played is made for each kernel."""
    every = metafunc.config.getoption("--every-kernel")
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", read_scenarios(every=every))
    if "played" in metafunc.fixturenames:
        kernels = [kernel for kernel in KERNELS if every or kernel.often]
        metafunc.parametrize("kernel", kernels, ids=lambda kernel: kernel.name)


@pytest.fixture(scope="session")
def played(pytestconfig: pytest.Config):
    """Plays the scenarios of a kernel when first asked about it."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def show(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"    {line}", flush=True)

    @functools.lru_cache(maxsize=None)
    def attempt(kernel: Kernel) -> Played | LabError:
        every = pytestconfig.getoption("--every-kernel")
        show(f"\n    kernel {kernel.name}: playing the scenarios")
        try:
            return play(kernel, read_scenarios(every=every), show)
        except LabError as error:
            return error

    def of(kernel: Kernel) -> Played:
        result = attempt(kernel)
        if isinstance(result, LabError):
            pytest.fail(str(result), pytrace=False)
        return result

    return of
