# SPDX-License-Identifier: GPL-2.0-or-later
"""A verdict, a lost VM and a broken kernel are three things."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from lab.checks import testing
from lab.machines import vm
from lab.machines.arch import ARM64, HOST
from lab.machines.emulator import format_starter
from lab.machines.roots import Root
from lab.machines.matrix import kernel_named
from lab.machines.vm import EmulatorRace, Machine, VmLost, VmNotBooted, VmResult, _result
from lab.machines.vm import qemu_command


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    root = Root("7.3", Path("/root"), "7.3.4", "linux-image 7.3.4", "key")
    return Machine(root, tmp_path)


def test_verdict_gives_the_status(machine) -> None:
    verdict = {"status": 3, "reason": "status 3"}
    (machine.output / "verdict.json").write_text(json.dumps(verdict))
    result = _result(machine, "it ended")
    assert (result.status, result.reason, result.trouble) == (3, "status 3", [])


def test_no_verdict_is_lost_and_quotes_the_console(machine) -> None:
    (machine.output / "console.log").write_text("x\nKernel panic - not syncing\n")
    with pytest.raises(VmLost, match="VM lost, it ended.*Kernel panic"):
        _result(machine, "it ended")


OOPS = """[  455.8] Oops: int3: 0000 [#1] SMP NOPTI
[  455.8] RIP: 0010:tun_net_xmit+0x5/0x630 [tun]
[  455.8] Code: 90 90 f3 0f 1e fa %s <77> 56 03 00 41 57
[  455.8] Kernel panic - not syncing: Fatal exception in interrupt
"""
NOT_RACES = {
    "the breakpoint is in memory": OOPS % "cc",
    "no breakpoint": OOPS.replace("int3: ", "") % "e8",
    "a breakpoint after another fault": "Oops: 0000\nCode: e8 <77>\n" + OOPS % "e8",
    "memory unknown": "Oops: int3: 0000 [#1]\nCode: Unable to access opcode bytes\n",
}


def test_breakpoint_that_memory_lacks_is_a_race_of_the_emulator(
    machine, monkeypatch
) -> None:
    (machine.output / "console.log").write_text(OOPS % "e8")
    with pytest.raises(EmulatorRace, match=r"int3.*RIP: 0010:tun_net_xmit\+0x5"):
        _result(machine, "it ended")
    monkeypatch.setattr(vm, "read_kvm", lambda: True)
    with pytest.raises(VmLost) as caught:
        _result(machine, "it ended")
    assert not isinstance(caught.value, EmulatorRace)


@pytest.mark.parametrize("console", NOT_RACES.values(), ids=list(NOT_RACES))
def test_every_other_fault_is_no_race_of_the_emulator(machine, console) -> None:
    (machine.output / "console.log").write_text(console)
    with pytest.raises(VmLost) as caught:
        _result(machine, "it ended")
    assert not isinstance(caught.value, EmulatorRace)


@pytest.mark.parametrize(
    "faults, outcome, boots",
    [
        ([EmulatorRace("int3"), None], "passed", 2),
        ([EmulatorRace("int3")] * testing.BOOTS, testing.RACED, testing.BOOTS),
        ([VmLost("panic")], "lost", 1),
    ],
)
def test_only_what_the_emulator_lost_is_played_again(
    machine, monkeypatch, faults, outcome, boots
) -> None:
    played: list[list[str]] = []

    def run_job(_machine, job, *_):
        played.append(job["names"])
        fault = faults[len(played) - 1]
        one = {"name": "a.b", "outcome": "passed", "message": "", "seconds": 1.0}
        written = {"results": [], "running": "a.b"} if fault else {"results": [one]}
        (machine.output / "result.json").write_text(json.dumps(written))
        if fault:
            raise fault
        return VmResult(0, "")

    stage = replace(testing.KERNEL, stage=lambda *_: None)
    monkeypatch.setattr(testing, "machine_for", lambda *_: nullcontext(machine))
    monkeypatch.setattr(testing.vm, "run_job", run_job)
    ended = testing.play(kernel_named("newest"), ["a.b"], lambda _: None, stage)
    assert ended.outcomes["a.b"].outcome == outcome
    assert played == [["a.b"]] * boots


def emulate(machine: Machine, monkeypatch, *scripts: str) -> None:
    """The next boots run these instead of QEMU, in /out."""
    left = list(scripts)
    monkeypatch.setattr(vm, "ensure_initramfs", lambda *_: Path("/i"))
    monkeypatch.setattr(vm, "ensure_qemu", lambda _: Path("/q"))
    monkeypatch.setattr(
        vm,
        "qemu_command",
        lambda *_, **__: ["sh", "-c", f"cd {machine.output}; {left.pop(0)}; #"],
    )


FINE = """touch begun; echo '{"status": 0, "reason": ""}' >verdict.json"""


def test_vm_that_dies_on_the_way_up_is_booted_once_more(machine, monkeypatch) -> None:
    told: list[str] = []
    emulate(machine, monkeypatch, "echo no memory >&2; kill -SEGV $$", FINE)
    assert vm.run_job(machine, {}, 60, told.append) == VmResult(0, "")
    assert "ended with status -11" in told[0] and "no memory" in told[0]


def test_vm_that_never_comes_up_is_lost(machine, monkeypatch) -> None:
    told: list[str] = []
    emulate(machine, monkeypatch, "exec sleep 60", "exit 3")
    monkeypatch.setattr(vm, "BOOT_SECONDS", 0.1)
    with pytest.raises(VmNotBooted, match="ended with status 3"):
        vm.run_job(machine, {}, 60, told.append)
    assert "it was stopped after 0 s" in told[0]


def test_job_that_began_is_not_begun_again(machine, monkeypatch) -> None:
    told: list[str] = []
    emulate(machine, monkeypatch, "touch begun; exit 1")
    with pytest.raises(VmLost, match="ended with status 1"):
        vm.run_job(machine, {}, 60, told.append)
    assert told == []


def test_lines_of_the_guest_are_told_without_their_ends(machine, monkeypatch) -> None:
    told: list[str] = []
    emulate(machine, monkeypatch, f"{FINE}; printf 'one\\r\\n\\377two\\n' >>progress")
    assert vm.run_job(machine, {"kind": "bench"}, 60, told.append).status == 0
    assert told == ["one", "\ufffdtwo"]
    assert json.loads((machine.output / "job.json").read_text()) == {"kind": "bench"}
    assert json.loads((machine.output / "qemu.json").read_text())[:2] == ["sh", "-c"]


@pytest.mark.parametrize("disk", [None, Path("/d/root.ext4")])
def test_initramfs_has_the_drivers_of_the_root(machine, monkeypatch, disk) -> None:
    asked: list[bool] = []
    emulate(machine, monkeypatch, FINE)
    monkeypatch.setattr(vm, "ensure_initramfs", lambda _, disk: asked.append(disk))
    vm.run_job(replace(machine, disk=disk), {}, 60)
    assert asked == [disk is not None]


def test_verdict_of_an_earlier_boot_does_not_count(machine, monkeypatch) -> None:
    for name in ("verdict.json", "result.json"):
        (machine.output / name).write_text('{"status": 0, "reason": ""}')
    (machine.output / "console.log").write_text("WARNING: stale\n")
    emulate(machine, monkeypatch, "touch begun")
    with pytest.raises(VmLost, match="ended with status 0 without a verdict") as lost:
        vm.run_job(machine, {}, 60)
    assert "stale" not in str(lost.value)
    assert not (machine.output / "result.json").exists()


def test_job_that_takes_too_long_is_lost(machine, monkeypatch) -> None:
    emulate(machine, monkeypatch, "touch begun; exec sleep 60")
    with pytest.raises(VmLost, match="it was stopped after 2 s") as lost:
        vm.run_job(machine, {}, 2)
    assert not isinstance(lost.value, VmNotBooted)


def test_job_may_take_longer_than_a_boot(machine, monkeypatch) -> None:
    emulate(machine, monkeypatch, f"touch begun; sleep 1.5; {FINE}")
    monkeypatch.setattr(vm, "BOOT_SECONDS", 1.0)
    assert vm.run_job(machine, {}, 60) == VmResult(0, "")


def test_console_of_a_lost_vm_is_kept(machine) -> None:
    (machine.output / "console.log").write_text("one\n\ntwo\nthree\nfour\n")
    (machine.output / "qemu.log").write_text("first\nqemu: out of memory\n")
    with pytest.raises(VmNotBooted) as lost:
        _result(machine, "it ended")
    told, _, kept = str(lost.value).rpartition("; see ")
    assert told.endswith("said: two; three; four; QEMU said: qemu: out of memory")
    assert Path(kept).read_text() == "one\n\ntwo\nthree\nfour\n"


def test_trouble_spoils_a_fine_verdict(machine) -> None:
    verdict = {"status": 0, "reason": ""}
    (machine.output / "verdict.json").write_text(json.dumps(verdict))
    (machine.output / "console.log").write_text("BUG: sleeping function\n")
    result = _result(machine, "it ended")
    assert (result.status, result.trouble) == (0, ["BUG: sleeping function"])


@pytest.mark.parametrize("outcome, told", [("passed", ["OSError"]), ("failed", [])])
def test_end_that_no_scenario_tells_of_is_trouble(
    machine, monkeypatch, outcome, told
) -> None:
    one = {"name": "a.b", "outcome": outcome, "message": "", "seconds": 1.0}
    written = json.dumps({"results": [one], "running": None})
    (machine.output / "result.json").write_text(written)
    ended = VmResult(1, "OSError")
    monkeypatch.setattr(testing.vm, "run_job", lambda *_: ended)
    _, trouble = testing.boot(machine, {}, 1.0, print)
    assert trouble == told


def test_scenario_running_when_the_vm_is_lost_is_lost(machine, monkeypatch) -> None:
    done = {"name": "a.b", "outcome": "passed", "message": "", "seconds": 1.0}
    written = json.dumps({"results": [done], "running": "a.c"})
    (machine.output / "result.json").write_text(written)

    def run_job(*_):
        raise VmLost("panic")

    monkeypatch.setattr(testing.vm, "run_job", run_job)
    settled, _ = testing.boot(machine, {}, 1.0, lambda _: None)
    assert settled == [
        testing.Outcome("a.b", "passed", "", 1.0),
        testing.Outcome("a.c", "lost", "panic"),
    ]


def test_root_and_repository_are_shared_read_only(machine) -> None:
    shares = [
        part
        for part in qemu_command(Path("/q"), machine, Path("/i"))
        if part.startswith("local,mount_tag=")
    ]
    writable = [share for share in shares if "readonly=on" not in share]
    assert len(shares) == 3 and len(writable) == 1
    assert writable[0].startswith("local,mount_tag=out")


def test_machine_that_counts_is_emulated_on_one_thread(machine, monkeypatch) -> None:
    counting = replace(machine, vcpus=1, counted=True)
    for kvm in (True, False):
        monkeypatch.setattr(vm, "read_kvm", lambda kvm=kvm: kvm)
        command = qemu_command(Path("/q"), counting, Path("/i"))
        assert "-icount" in command and "kvm" not in command
        assert "tcg,thread=single" in command
    assert "-icount" not in qemu_command(Path("/q"), machine, Path("/i"))


def test_machine_is_as_large_as_asked_and_virtual_where_it_can_be(
    machine, monkeypatch
) -> None:
    monkeypatch.setattr(vm, "read_kvm", lambda: True)
    asked = replace(machine, vcpus=3, memory_mb=512, cmdline="mem=1G lab.systemd")
    command = qemu_command(Path("/q"), asked, Path("/i"), shell=True)
    words = " ".join(command)
    assert "-smp 3 -m 512M" in words and "-accel kvm -cpu host" in words
    cmdline = command[command.index("-append") + 1]
    assert cmdline.endswith("selinux=0 mem=1G lab.systemd lab.shell")
    monkeypatch.setattr(vm, "read_kvm", lambda: False)
    words = " ".join(qemu_command(Path("/q"), asked, Path("/i")))
    assert "-accel tcg,thread=multi -cpu qemu64" in words


def test_root_on_a_disk_is_no_share(machine) -> None:
    on_disk = replace(machine, disk=Path("/d/root.ext4"))
    command = qemu_command(Path("/q"), on_disk, Path("/i"))
    drive = command[command.index("-drive") + 1].split(",")
    assert "file=/d/root.ext4" in drive and "snapshot=on" in drive
    assert not any("mount_tag=root" in part for part in command)


def test_qemu_runs_on_the_libraries_of_its_own_packages() -> None:
    script = format_starter(Path("/with space/tree"), HOST.emulator)
    last = script.splitlines()[-1]
    assert last.startswith("exec '/with space/tree/usr/lib/")
    assert "--library-path '/with space/tree/usr/lib/" in last
    assert last.endswith(' "$@"')


def test_foreign_kernel_gets_a_machine_and_a_console_of_its_own(
    machine, monkeypatch
) -> None:
    foreign = replace(machine, root=replace(machine.root, arch=ARM64))
    for kvm in (False, True):
        monkeypatch.setattr(vm, "read_kvm", lambda kvm=kvm: kvm)
        command = qemu_command(Path("/q"), foreign, Path("/i"))
        assert command[command.index("-cpu") + 1] == "cortex-a72"
        assert "console=ttyAMA0" in command[command.index("-append") + 1]
