# SPDX-License-Identifier: GPL-2.0-or-later
"""The native machine's own parts that need no machine."""

from __future__ import annotations

import os

import pytest

from lab import sure
from lab.failure import LabError, Unsuitable
from lab.guest import host, rows
from lab.machines.native import boot, source
from lab.machines.vm import REPOSITORY
from lab.row import Row

ROW = Row(name="one", title="one", unit="packets/s")


def lines(variant: str, *values: float) -> list[dict]:
    return [
        {"row": "one", "variant": variant, "round": number, "sample": {"value": value}}
        for number, value in enumerate(values)
    ]


def test_a_narrow_interval_is_sure_and_a_wide_one_is_not() -> None:
    assert sure.is_within((0.98, 1.02), 0.03)
    assert not sure.is_within((0.9, 1.0), 0.03)
    assert not sure.is_within(None, 0.03)


def test_rows_are_unsure_until_each_ratio_is_known() -> None:
    stock = lines("stock", *[100] * 5)
    sluice = lines("sluice", *[99] * 5)
    assert rows.unsure_rows([ROW], [*stock, *sluice]) == []
    upstream = lines("upstream", 50, 100, 150, 100, 70)
    assert rows.unsure_rows([ROW], [*stock, *sluice, *upstream]) == [ROW]
    assert rows.unsure_rows([ROW], [*stock, *sluice[:4]]) == [ROW]


def test_what_slows_a_whole_round_does_not_make_its_ratio_unsure() -> None:
    stock = {0: 100.0, 1: 50.0, 2: 100.0, 3: 50.0, 4: 75.0, 5: 80.0}
    sluice = {number: 0.9 * value for number, value in stock.items() if number < 5}
    assert sure.ratio(sluice, stock) == pytest.approx(0.9)
    assert sure.is_within(sure.ratio_interval(sluice, stock), 0.001)


def test_rounds_without_both_say_nothing() -> None:
    assert sure.ratio({0: 1.0}, {1: 1.0}) is None
    assert sure.ratio({0: 1.0}, {0: 0.0}) is None


def test_lateness_is_told_by_percentiles() -> None:
    assert host.late_percentile([90, 0, 8, 2], 50) == 1
    assert host.late_percentile([90, 0, 8, 2], 95) == 4
    assert host.late_percentile([90, 0, 8, 2], 99) == 8
    assert host.late_percentile([0, 0], 50) is None


def test_every_demand_for_ftrace_knows_of_another_hook() -> None:
    """Or the native machine gets no module."""
    told = source.MODULE_MAKE.rpartition("-D")[2]
    text = (REPOSITORY / "kmod" / "features.sh").read_text()
    demands = [part.partition("END\n")[0] for part in text.split("\nneed ")[1:]]
    ftrace = [demand for demand in demands if "FTRACE" in demand]
    assert ftrace
    assert all(f"defined({told})" in demand for demand in ftrace), ftrace


def test_debug_kernel_has_all_that_the_other_has_and_more(tmp_path) -> None:
    source.add(tmp_path, debug=False)
    less = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
    source.add(tmp_path, debug=True)
    assert less < {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
    assert source.key(debug=False) != source.key(debug=True)


PATCHES = [
    path for folder in source.folders(debug=True) for path in source.patches(folder)
]


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_patch_that_does_not_match_is_no_kernel(path, tmp_path) -> None:
    folder = tmp_path / "patches"
    folder.mkdir()
    (folder / path.name).write_text(path.read_text())
    file, sign = source.place_and_sign(path.read_text())
    patched = tmp_path / file
    patched.parent.mkdir(parents=True)
    patched.write_text("int nothing;\n")
    with pytest.raises(LabError, match=path.name):
        source.require_patched(tmp_path, tmp_path)
    patched.write_text(sign)
    source.require_patched(tmp_path, tmp_path)


def test_refusal_of_the_host_is_no_defect() -> None:
    boot.require_accepted("[    0.1] Kernel panic - not syncing: cannot create\n")
    with pytest.raises(Unsuitable, match="requested but not functional"):
        boot.require_accepted("SECCOMP userspace requested but not functional!\n")


def test_too_little_memory_is_said_before(monkeypatch) -> None:
    with pytest.raises(Unsuitable, match="MB free"):
        boot.require_memory(1 << 40)


def test_host_tells_the_guest_what_others_use_of_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(host, "LOAD", tmp_path / "load")
    monkeypatch.setattr(boot, "read_busy_ticks", lambda: 1000)
    monkeypatch.setattr(boot, "_own_ticks", lambda _: 400)
    boot.write_load(0, tmp_path)
    now, used = host.read_load()
    assert used == 600 / boot.TICK
    (tmp_path / "load").write_text(f"{now + 4} {used + 1}")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert host.others_percent((now, used), host.read_load()) == 12.5


def test_time_of_a_process_is_counted() -> None:
    sum(range(3_000_000))
    assert boot._own_ticks(os.getpid()) > 0
    assert boot._ticks(0) == 0
