# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sluice import output
from sluice.cli import main
from tests.unit import _machine


@pytest.fixture(autouse=True)
def heard_interrupt() -> None:
    """A runner in the background has left SIGINT ignored, and so would we."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs the command, which must end with this status; what was printed since."""

    def call(words: str | Sequence[str], status: int = 0) -> Any:
        assert main(words.split() if isinstance(words, str) else [*words]) == status
        return capsys.readouterr()

    return call


@pytest.fixture
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """stdout is a terminal without colours."""
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _machine.Machine:
    """tap0 is served, tun0 has noqueue."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    return _machine.install(monkeypatch, tmp_path)
