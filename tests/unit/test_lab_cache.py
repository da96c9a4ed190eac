# SPDX-License-Identifier: GPL-2.0-or-later
"""Nothing half-made stays in the cache."""

from __future__ import annotations

import pytest

from lab.cache import cache_dir, digest, fresh_directory, locked


def test_chosen_cache_wins(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    with locked("name"):
        assert (tmp_path / "locks" / "name").exists()


def test_digest_tells_parts_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") == digest(b"a")


def test_complete_directory_gets_its_name(tmp_path) -> None:
    with fresh_directory(tmp_path / "root") as unfinished:
        (unfinished / "file").touch()
        assert not (tmp_path / "root").exists()
    assert (tmp_path / "root" / "file").exists()


def test_interrupted_directory_is_removed(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt):
        with fresh_directory(tmp_path / "root"):
            raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
