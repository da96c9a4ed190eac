# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit import _machine


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _machine.Machine:
    """tap0 is served, tun0 has noqueue."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    return _machine.install(monkeypatch, tmp_path)
