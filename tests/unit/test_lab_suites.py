# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernel of a suite is taken for the newest, and what is said about it."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from lab.failure import LabError, UsageError
from lab.machines import suites
from lab.machines.matrix import kernel_named
from lab.machines.roots import root_key

IMAGE = "linux-{}-{}+deb13-amd64"


def listing(images=(), sources=(), **packages: str) -> dict[str, str]:
    found = dict(packages)
    for version in images:
        for part in ("image", "headers"):
            found[IMAGE.format(part, version)] = f"{version}-1~bpo13+1"
    for series in sources:
        found[f"linux-source-{series}"] = f"{series}.9-1~bpo13+1"
    found["linux-image-amd64"] = "6.12.9-1"
    return found


BOTH = listing(["7.2.9", "7.2.12", "7.3.4"], ["7.2", "7.3"])


@pytest.mark.parametrize(
    ("name", "offered", "release", "told"),
    [
        ("newest", BOTH, r"7.3.4\+deb13-amd64", ""),
        ("newest", listing(["7.3.4", "7.10.1"]), r"7.10.1\+deb13-amd64", ""),
        ("7.2", BOTH, r"7.2.12\+deb13-amd64", ""),
        ("newest", listing(["7.2.12"], ["7.2", "7.3"]), "7.3", "linux-source-7.3"),
        ("newest", listing(["7.2.12"]), r"7.2.12\+deb13-amd64", "IFF_BACKPRESSURE"),
        ("newest", listing(), "amd64", "trixie's own"),
        ("newest-debug", BOTH, "7.3", ""),
        ("7.2-debug", BOTH, "7.2", ""),
    ],
)
def test_newest_is_chosen(name, offered, release, told) -> None:
    kernel, why = suites.choose_newest(kernel_named(name), offered)
    assert kernel.release == release
    assert told in why and bool(told) == bool(why)


def test_image_without_headers_is_not_chosen() -> None:
    missing = IMAGE.format("headers", "7.3.4")
    offered = {name: v for name, v in BOTH.items() if name != missing}
    kernel, _ = suites.choose_newest(kernel_named("7.2"), offered)
    assert kernel.release == r"7.2.12\+deb13-amd64"
    kernel, why = suites.choose_newest(kernel_named("newest"), offered)
    assert kernel.release == "7.3" and "building" in why


def test_series_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="not in trixie-backports; there are 7.2"):
        suites.choose_newest(kernel_named("7.9"), BOTH)


def test_newest_is_named_by_its_series(monkeypatch) -> None:
    monkeypatch.setattr(suites, "read_listing", lambda _: BOTH)
    assert suites.find_kernel(kernel_named("newest")).name == "7.3"
    assert suites.find_kernel(kernel_named("newest-debug")).name == "7.3-debug"


def test_another_version_on_the_mirror_makes_another_root(monkeypatch) -> None:
    keys = set()
    for version in ("6.12.9-1", "6.12.10-1"):
        offered = {**BOTH, "linux-image-amd64": version}
        monkeypatch.setattr(suites, "read_listing", lambda _, offered=offered: offered)
        keys.add(root_key(suites.find_kernel(kernel_named("6.12"))))
    assert len(keys) == 2


# What apt knows: several versions of a package, of all the suites.
MADISON = """linux-image-7.3.4+deb13-amd64 | 7.3.4-1~bpo13+1 | http://a.example/debian
linux-source-7.2 | 7.2.12-1~bpo13+1 | http://a.example/debian trixie-backports/main
linux-source-7.2 | 7.2.9-1~bpo13+1 | http://a.example/debian trixie-backports/main
"""


def fetch(tmp_path, monkeypatch, status: int = 0) -> dict[str, str]:
    """With an apt that ends with this status."""

    def apt(state, arch, program, *words) -> subprocess.CompletedProcess[str]:
        said = {"pkgnames": "linux-source-7.2\n", "madison": MADISON}
        return subprocess.CompletedProcess(words, status, said.get(words[0], ""))

    monkeypatch.setattr(suites, "_apt", apt)
    monkeypatch.setattr(suites, "read_mirror", lambda: "http://a.example/debian/")
    return suites._fetch(kernel_named("newest"), tmp_path / "state")


def test_newest_of_all_the_suites_counts(tmp_path, monkeypatch) -> None:
    assert fetch(tmp_path, monkeypatch) == {
        "linux-image-7.3.4+deb13-amd64": "7.3.4-1~bpo13+1",
        "linux-source-7.2": "7.2.12-1~bpo13+1",
    }
    lines = (tmp_path / "state" / "sources.list").read_text().splitlines()
    assert "deb http://a.example/debian/ trixie-backports main" in lines


def test_a_part_of_the_suites_is_no_listing(tmp_path, monkeypatch) -> None:
    assert fetch(tmp_path, monkeypatch, status=100) == {}


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Where the listing of the newest is kept, in a cache of its own."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    monkeypatch.setattr(suites, "_fetch", lambda kernel, state: BOTH)
    kernel = kernel_named("newest")
    (tmp_path / "sluice" / "suites").mkdir(parents=True)
    key = suites.digest(json.dumps([(kernel.suite, *kernel.extra_suites), "amd64"]))
    folder = tmp_path / "sluice" / "suites" / key
    folder.mkdir()
    return folder / "kernels.json"


def test_listing_is_asked_for_again_after_a_day(kept, monkeypatch, capsys) -> None:
    kernel = kernel_named("newest")
    assert suites.read_listing(kernel) == BOTH
    monkeypatch.setattr(suites, "_fetch", lambda kernel, state: {"linux-source-7.4": "1"})
    assert suites.read_listing(kernel) == BOTH
    os.utime(kept, (1, 1))
    assert suites.read_listing(kernel) == {"linux-source-7.4": "1"}
    monkeypatch.setattr(suites, "_fetch", lambda kernel, state: {})
    os.utime(kept, (1, 1))
    assert suites.read_listing(kernel) == {"linux-source-7.4": "1"}
    assert "using the older list" in capsys.readouterr().err


def test_without_network_and_listing_it_is_said(kept, monkeypatch) -> None:
    monkeypatch.setattr(suites, "_fetch", lambda kernel, state: {})
    with pytest.raises(LabError, match="check the network"):
        suites.read_listing(kernel_named("newest"))
