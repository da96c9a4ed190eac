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
        help="play the scenarios on kernels that are not played often, too",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for what was played is made for each kernel."""
    if "played" in metafunc.fixturenames:
        every = metafunc.config.getoption("--every-kernel")
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
        show(f"\n    kernel {kernel.name}: playing the scenarios")
        try:
            return play(kernel, read_scenarios(), show)
        except LabError as error:
            return error

    def of(kernel: Kernel) -> Played:
        result = attempt(kernel)
        if isinstance(result, LabError):
            pytest.fail(str(result), pytrace=False)
        return result

    return of
