# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab makes of the texts it is given."""

from __future__ import annotations

import lzma
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.checks import testing
from lab.checks.testing import (
    COMMAND,
    KERNEL,
    PACKAGING,
    choose_scenarios,
)
from lab.failure import LabError, Unsuitable
from lab.guest.scenarios import Scenario, find_scenarios
from lab.machines.build import parse_warnings
from lab.machines.initramfs import make_initramfs, needed_modules
from lab.machines.matrix import KERNELS, NATIVE, NEWEST, kernel_named
from lab.machines.roots import recipe, root_key
from lab.machines.suites import parse_mirror
from lab.trouble import parse_trouble


def test_mirror_is_the_debian_one() -> None:
    text = "http://a.example/debian-security/\nhttp://a.example/debian/\n"
    assert parse_mirror(text) == "http://a.example/debian/"


def test_machine_without_debian_mirror_is_not_suitable() -> None:
    with pytest.raises(Unsuitable):
        parse_mirror("http://a.example/other/\n")


def test_each_kernel_has_a_root_of_its_own() -> None:
    assert len({root_key(kernel) for kernel in KERNELS}) == len(KERNELS)
    assert any("linux-headers" in part for part in recipe(KERNELS[0]))


def test_unknown_kernel_names_the_known() -> None:
    with pytest.raises(LabError, match="choose 5.10, 6.1"):
        kernel_named("2.4-nonsense")


SHOWN = """insmod /root/lib/modules/6.12/net/netfs.ko.xz
insmod /root/lib/modules/6.12/net/9p.ko.xz msize=1
builtin overlay
insmod /root/lib/modules/6.12/net/netfs.ko.xz
insmod /root/lib/modules/6.12/net/9pnet_virtio.ko.xz
"""


def test_modules_load_after_what_they_need_and_once(monkeypatch) -> None:
    told = subprocess.CompletedProcess([], 1, SHOWN)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: told)
    modules = needed_modules(Path("/root"), "6.12", ("9p", "overlay", "9pnet_virtio"))
    names = [path.name.partition(".")[0] for path in modules]
    assert names == ["netfs", "9p", "9pnet_virtio"]


@pytest.mark.skipif(not shutil.which("busybox"), reason="there is no busybox")
def test_initramfs_has_what_is_given(tmp_path) -> None:
    (tmp_path / "9p.ko.xz").write_bytes(lzma.compress(b"the module"))
    (tmp_path / "tool").write_bytes(b"the tool")
    image = tmp_path / "image"
    make_initramfs(image, "the init", [tmp_path / "tool"], [tmp_path / "9p.ko.xz"])
    command = ["busybox", "cpio", "-i", "-d"]
    (tmp_path / "out").mkdir()
    with open(image) as archive:
        subprocess.run(command, stdin=archive, cwd=tmp_path / "out", check=True)
    assert (tmp_path / "out/init").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out/bin/tool").read_bytes() == b"the tool"
    assert (tmp_path / "out/modules/00-9p.ko").read_bytes() == b"the module"


def test_warnings_of_own_files_only() -> None:
    log = "hook.c:12:3: warning: unused\n/usr/include/a.h:1: warning: theirs\nok"
    assert parse_warnings(log) == ["hook.c:12:3: warning: unused"]
    assert parse_warnings("/mnt/hook.c:12:3: error: no") != []
    lines = ["entry_x86.o: warning: objtool: f+0x4: call without frame pointer"]
    lines += ["ld: warning: /mnt/entry_x86.o: missing .note.GNU-stack section implies"]
    assert parse_warnings("\n".join([*lines, "make[2]: warning: Clock skew"])) == lines


def test_trouble_is_found_in_a_console() -> None:
    console = "[ 1.0] fine\n[ 2.0] WARNING: CPU: 1 PID: 2 at net/core\n"
    assert parse_trouble(console) == ["[ 2.0] WARNING: CPU: 1 PID: 2 at net/core"]
    assert parse_trouble("mtrr: your CPUs had inconsistent MTRRs") == []


@pytest.mark.parametrize(
    "line",
    [
        "ODEBUG: free active (active state 0) object: 0 object type: timer_list",
        "unreferenced object 0xffff888100000000 (size 64):",
        "lab: lockdep has stopped watching",
    ],
)
def test_what_debug_kernels_say_is_trouble(line) -> None:
    assert parse_trouble(line) == [line]


RACE = """BUG: KCSAN: data-race in pktgen_thread_worker / sluice_queue_look [sluice]

{} to 0xffff888001234568 of 8 bytes by task 93 on cpu 1:
 sluice_queue_look+0x1e8/0x4f0 [sluice]
 transmit_entered+0x52/0x70 [sluice]

read to 0xffff888001234568 of 8 bytes by task 94 on cpu 2:
 pktgen_thread_worker+0x1052/0x2890 [pktgen]
"""


@pytest.mark.parametrize("access", ["read", "write", "read-write"])
def test_race_of_our_plain_access_is_trouble(access) -> None:
    (race,) = parse_trouble(RACE.format(access))
    assert race.startswith("BUG: KCSAN: data-race in pktgen")


def test_race_of_our_marked_access_is_the_other_sides() -> None:
    assert parse_trouble(RACE.format("read-write (marked)")) == []
    assert parse_trouble(RACE.replace("sluice", "tun").format("write")) == []


def test_marks_choose_the_kernels_a_scenario_is_played_on(monkeypatch) -> None:
    marks: list[dict] = [
        *({}, {"often": False}, {"on": NEWEST}),
        *({"on": NATIVE.name}, {"on": NATIVE.name, "often": False}),
    ]
    found = [
        Scenario(str(number), print, **each) for number, each in enumerate(marks)
    ]
    monkeypatch.setattr(testing, "find_scenarios", lambda suite: found)
    chosen = {
        kernel.name: choose_scenarios(KERNEL, kernel, every=False)
        for kernel in KERNEL.chosen(every=False)
    }
    own = {NEWEST: ["0", "2"], NATIVE.name: ["3"]}
    assert chosen == {"5.10": ["0"], "6.12": ["0"], **own}
    every = [str(number) for number in range(len(marks))]
    assert choose_scenarios(KERNEL, NATIVE, every=True) == every


@pytest.mark.parametrize(
    "suite", [KERNEL, COMMAND, PACKAGING], ids=lambda suite: suite.name
)
def test_marked_kernel_is_one_of_make_test(suite) -> None:
    known = {kernel.name for kernel in suite.chosen(every=False)}
    assert {one.on for one in find_scenarios(suite.name)} <= known | {""}


@pytest.mark.parametrize(
    "suite", [KERNEL, COMMAND, PACKAGING], ids=lambda suite: suite.name
)
def test_make_test_plays_a_part_of_each_suite(suite) -> None:
    whole = {one.name for one in find_scenarios(suite.name)}
    often = [one.name for one in find_scenarios(suite.name) if one.often]
    played: set[str] = set()
    for kernel in suite.chosen(every=False):
        part = set(choose_scenarios(suite, kernel, every=False))
        assert part and part <= whole
        played |= part
    assert played == set(often)
    kernels = [kernel.name for kernel in suite.chosen(every=False)]
    known = {kernel.name for kernel in suite.chosen(every=True)}
    assert kernels and set(kernels) <= known
