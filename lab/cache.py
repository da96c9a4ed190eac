# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache directory: what survives between runs, and its locks."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from lab.failure import Unsuitable

LEAST_FREE = 500 << 20  # bytes; with less, apt-get may hang
ELSEWHERE = "SLUICE_CACHE may name another folder for the cache, of some GB"


def cache_dir() -> Path:
    chosen = os.environ.get("SLUICE_CACHE")
    if chosen:
        return Path(chosen).absolute() / "sluice"
    if os.geteuid() == 0:
        return Path("/var/cache/sluice")
    return Path.home() / ".cache" / "sluice"


def digest(*parts: bytes | str) -> str:
    """A short key that changes when any part does."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:16]


def digest_files(paths: list[Path]) -> str:
    parts: list[bytes | str] = []
    for path in sorted(paths):
        parts += [path.name, path.read_bytes()]
    return digest(*parts)


def require_space(folder: Path) -> None:
    """Before something is made there."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        needed = f"{LEAST_FREE >> 20} MB are needed"
        raise Unsuitable(f"{folder}: {free >> 20} MB free, {needed}; {ELSEWHERE}")


def _lock(name: str, operation: int, waits: str) -> TextIO:
    """A lock's file, locked; if another process has it, say so once and wait."""
    locks = cache_dir() / "locks"
    try:
        locks.mkdir(parents=True, exist_ok=True)
        handle = open(locks / name, "w")  # noqa: SIM115
    except OSError as error:
        raise Unsuitable(f"{locks}: {error.strerror}; {ELSEWHERE}") from None
    try:
        fcntl.flock(handle, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"lab: {waits}", file=sys.stderr, flush=True)
        fcntl.flock(handle, operation)
    return handle


USE = "use"  # the lock that every user of the cache shares


@functools.cache
def hold_cache(cache: Path) -> TextIO:
    """Until this process ends, empty_cache() waits."""
    return _lock(USE, fcntl.LOCK_SH, f"{cache}: waits for a process that empties it")


def empty_cache() -> None:
    """All that is left are the lock files."""
    cache, removed = cache_dir(), cache_dir() / ".removed"
    with _lock(USE, fcntl.LOCK_EX, f"{cache}: waits for a run of the lab that uses it"):
        # Renamed first: what an interrupted removal leaves is not taken for complete.
        shutil.rmtree(removed, ignore_errors=True)
        removed.mkdir()
        for path in {*cache.iterdir()} - {cache / "locks", removed}:
            path.rename(removed / path.name)
        shutil.rmtree(removed)


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Held by one process at a time."""
    hold_cache(cache_dir())
    with _lock(name, fcntl.LOCK_EX, f"{name}: waits for another process that makes it"):
        yield


def _name(path: Path) -> str:
    return path.name.rpartition("-")[0]  # without the key


@contextlib.contextmanager
def cached(final: Path, resumed: bool = False) -> Iterator[Path | None]:
    """The directory to fill, which becomes final once it is complete; None if final is.

    final: in a folder of the cache, named NAME-KEY; those of one NAME are made one after
    the other. resumed: an incomplete one stays for the next run with the same key.
    """
    hold_cache(cache_dir())  # so what is there stays, also without the lock
    lock = f"{final.parent.name}-{_name(final)}"
    with contextlib.nullcontext() if final.exists() else locked(lock):
        if final.exists():  # perhaps made while this waited
            yield None
            return
        final.parent.mkdir(parents=True, exist_ok=True)
        require_space(final.parent)
        unfinished = final.parent / f".new-{final.name}"
        for left in final.parent.glob(".new-*"):
            same = resumed and left == unfinished
            if _name(left) == _name(unfinished) and not same:
                shutil.rmtree(left)
        unfinished.mkdir(exist_ok=resumed)
        try:
            yield unfinished
            unfinished.rename(final)
        finally:
            if not resumed:
                shutil.rmtree(unfinished, ignore_errors=True)
