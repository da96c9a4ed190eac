# SPDX-License-Identifier: GPL-2.0-or-later
"""Nothing half-made stays in the cache."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from lab.__main__ import SUBCOMMANDS, main
from lab.cache import cache_dir, cached, digest, discard, empty_cache, fill_once
from lab.cache import hold_cache, locked
from lab.failure import LabError, Unsuitable


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path_factory) -> Path:
    """A folder of its own, for each test."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SLUICE_CACHE", str(folder))
    return folder


def test_chosen_cache_wins(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path / "sluice"  # which lab clean removes
    with locked("name"):
        assert (tmp_path / "sluice" / "locks" / "name").exists()


def test_a_cache_that_cannot_be_written_is_one_line(monkeypatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", "/proc/nowhere")
    with pytest.raises(Unsuitable, match="^/proc/nowhere/sluice/locks: .*SLUICE_CACHE"):
        with locked("name"):
            pass


def test_a_second_process_says_that_it_waits(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    with locked("root"):
        second = threading.Thread(target=lambda: locked("root").__enter__())
        second.start()
        second.join(0.2)
        assert second.is_alive()
    second.join()
    said = capsys.readouterr().err
    assert said == "lab: root: waits for another process that makes it\n"


def test_a_cache_in_use_is_not_emptied(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    final = tmp_path / "sluice" / "roots" / "one"
    with cached(final, "root"):
        pass
    with pytest.raises(LabError, match="another run of the lab uses it"):
        empty_cache()
    assert final.exists()
    hold_cache.cache_clear()  # as at the end of the process
    empty_cache()
    left = {path.name for path in final.parents[1].rglob("*")}
    assert left == {"locks", "root", "use"}


def test_what_an_interrupted_removal_left_is_removed(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    empty_cache()
    for name in (".removed/roots", "roots"):
        (tmp_path / "sluice" / name / "one").mkdir(parents=True)
    empty_cache()
    assert [path.name for path in (tmp_path / "sluice").iterdir()] == ["locks"]


def test_too_little_space_is_one_line(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("lab.cache.LEAST_FREE", 1 << 60)
    with pytest.raises(Unsuitable, match="MB free"):
        with cached(tmp_path / "root", "lock"):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line(monkeypatch, capsys) -> None:
    def fill() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.argv", ["lab", "generate"])
    generate = SUBCOMMANDS.choices["generate"]
    monkeypatch.setitem(generate._defaults, "function", fill)
    assert main() == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "No space left on device; SLUICE_CACHE" in said


def test_digest_tells_parts_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") == digest(b"a")


def test_complete_directory_gets_its_name(tmp_path) -> None:
    with cached(tmp_path / "root", "lock") as unfinished:
        (unfinished / "file").touch()
        assert not (tmp_path / "root").exists()
    assert (tmp_path / "root" / "file").exists()


def test_interrupted_directory_is_removed(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt):
        with cached(tmp_path / "root", "lock"):
            raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_directory_keeps_what_was_complete(tmp_path) -> None:
    filled: list[str] = []

    def fill(folder, interrupted: bool = False) -> None:
        folder.mkdir()
        filled.append(folder.name)
        if interrupted:
            (folder / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with cached(tmp_path / "kernel", "lock", resumed=True) as work:
            fill_once(work / "tree", lambda: fill(work / "tree"))
            fill_once(work / "linux", lambda: fill(work / "linux", True))
    assert not (tmp_path / "kernel").exists()
    with cached(tmp_path / "kernel", "lock", resumed=True) as work:
        fill_once(work / "tree", lambda: fill(work / "tree"))
        fill_once(work / "linux", lambda: fill(work / "linux"))
        discard(work / "tree")
    assert filled == ["tree", "linux", "linux"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "kernel",
        "linux",
        "linux.complete",
    ]
