# SPDX-License-Identifier: GPL-2.0-or-later
"""What modprobe is configured to do, against what the module has and knows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sluice import doctor, modprobe, system
from sluice.doctor import BAD, NOTE, Facts, Finding
from sluice.modprobe import COMMAND_LINE, Configured
from tests.unit.test_manual import module_parameters
from tests.unit.test_doctor import FINE, UNLOADED, found, only

CONF = "/etc/modprobe.d/sluice.conf"
LOADED = {"default_on": "Y", "stall_ms": "250", "direct_call": "Y", "target_us": "2000"}


def options(*texts: str, where: str = CONF) -> tuple[Configured, ...]:
    return tuple(Configured("options", text, where) for text in texts)


def test_parameters_are_the_modules() -> None:
    kinds = {name: kind for name, (kind, _) in module_parameters().items()}
    assert kinds == modprobe.PARAMETERS


@pytest.mark.skipif(not shutil.which("modprobe"), reason="no modprobe (kmod)")
@pytest.mark.parametrize("asked", [True, False])
def test_file_of_each_line_is_found(tmp_path: Path, monkeypatch, asked: bool) -> None:
    folder = tmp_path / "etc/modprobe.d"
    folder.mkdir(parents=True)
    (folder / "a.conf").write_text("options sluice stall_ms=9\nblacklist sluice\n")
    (folder / "b.conf").write_text("options sluice defaulton=0 # cautious\n")
    (folder / "c.conf~").write_text("options sluice target_us=x\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("quiet module_blacklist=x,sluice\n")
    kmod = system.read_output("modprobe", "-C", str(folder), "-c")
    busybox = (1, "modprobe: unrecognized option: c\n")
    answer = kmod if asked else busybox
    monkeypatch.setattr(system, "ROOT_FOLDER", tmp_path)
    monkeypatch.setattr(system, "PROC", tmp_path / "proc")
    monkeypatch.setattr(system, "read_output", lambda *_: answer)
    found = {(one.kind, one.text): one.where for one in modprobe.read_configured()}
    assert found == {
        ("options", "stall_ms=9"): f"{folder}/a.conf",
        ("blacklist", ""): f"{folder}/a.conf",
        ("options", "defaulton=0"): f"{folder}/b.conf",
        ("module_blacklist", ""): COMMAND_LINE,
    }


# As kstrtouint() and kstrtobool() of the kernel take them.
@pytest.mark.parametrize(("text", "valid"), [
    *((f"stall_ms={value}", True) for value in (
        "1", "60000", "0x10", "010", "+5", '"+5"',
    )),
    *((f"stall_ms={value}", False) for value in (
        "1s", "", '""', "-1", "1.5", "08", "1_0", "4294967296",
    )),
    ("stall_ms", False),
    *((f"default_on={value}", True) for value in (
        "0", "no", "off", "Y", "on", "n", "disabled",
    )),
    *((f"default_on={value}", False) for value in ("2", "", "o", "ja", "-1")),
    ("default_on", True),
    ("other=1s", True),  # not known: it is ignored
])
def test_what_the_kernel_takes(text: str, valid: bool) -> None:
    (one,) = options(text)
    assert (modprobe.invalid(one, modprobe.PARAMETERS) == "") is valid


def unloaded(*configured: Configured, refusal: str = "") -> Facts:
    return replace(FINE, **UNLOADED, configured=configured, refusal=refusal)


REFUSED = "sluice: `1s' invalid for parameter `stall_ms'"
BUILD = "dkms build --force -m sluice"


@pytest.mark.parametrize(("facts", "text", "fix"), [
    (unloaded(*options("stall_ms=1s"), refusal=REFUSED),
     f"not loaded: in {CONF} stall_ms=1s is not a whole number",
     f"correct it in {CONF}; modprobe sluice"),
    (unloaded(*options("default_on=2", where=COMMAND_LINE)),
     f"not loaded: in {COMMAND_LINE} default_on=2 is neither 0 nor 1",
     f"correct it in {COMMAND_LINE}; reboot"),
    (unloaded(*options("stall_ms=0"), refusal="sluice: stall_ms=0: not accepted"),
     f"not loaded: in {CONF} stall_ms=0 is outside 1 to 60000",
     f"correct it in {CONF}; modprobe sluice"),
    # Corrected meanwhile.
    (unloaded(*options("stall_ms=1000"), refusal=REFUSED), REFUSED,
     "modprobe sluice"),
    (unloaded(Configured("install", "/bin/false", CONF)),
     f"not loaded: {CONF} has: install sluice /bin/false",
     f"remove that from {CONF}; modprobe sluice"),
    (unloaded(Configured("module_blacklist", "", COMMAND_LINE)),
     f"not loaded: {COMMAND_LINE} has: module_blacklist sluice",
     f"remove that from {COMMAND_LINE}; reboot"),
    (unloaded(Configured("blacklist", "", CONF)), "not loaded", "modprobe sluice"),
    (unloaded(refusal="sluice: Unknown symbol tun_get_socket (err -2)"),
     "Unknown symbol", BUILD),
    (unloaded(refusal="sluice: disagrees about version of symbol module_layout"),
     "module_layout", BUILD),
    (unloaded(refusal="sluice: version magic '6.1'"), "magic", BUILD),
    (unloaded(refusal="sluice: /dev/net/tun: cannot be opened (-19)"),
     "cannot be opened", "modprobe tun; modprobe sluice"),
    (unloaded(refusal="sluice: tun: not the driver sluice knows"), "not the driver",
     "sluice doctor --report"),
    (unloaded(), "not loaded: stock behaviour", "modprobe sluice"),
])
def test_why_the_module_is_not_loaded(facts: Facts, text: str, fix: str) -> None:
    finding = only(facts, BAD)
    assert text in finding.text and finding.fix.startswith(fix), finding


CORRECT = f"correct it in {CONF}"


def loaded(*texts: str, **parameters: str) -> Facts:
    return replace(FINE, configured=options(*texts), parameters={**LOADED, **parameters})


@pytest.mark.parametrize(("facts", "level", "text", "fix"), [
    (loaded("defaulton=0"), BAD, "defaulton; did you mean default_on?", CORRECT),
    # A hyphen counts as "_".
    (loaded("default-on=0"), NOTE, "default_on is Y, ", "echo 0 >/sys/module/sluice"),
    (loaded("limit=9"), BAD, "has no limit", CORRECT),
    (loaded("stall_ms=1s"), BAD, "the module will not load again", CORRECT),
    (loaded("stall_ms=0"), NOTE, "is outside 1 to 60000", CORRECT),
    (loaded("target_us=999999", target_us="999999"), NOTE, "is outside 0 to 100000",
     CORRECT),
    (loaded("stall_ms=1000"), NOTE, f"stall_ms is 250, {CONF} says 1000",
     "echo 1000 >/sys/module/sluice/parameters/stall_ms; sluice apply"),
    (loaded("default_on=no"), NOTE, f"default_on is Y, {CONF} says N", "echo no >"),
    (loaded("direct_call=0"), NOTE, f"direct_call is Y, {CONF} says N",
     doctor.RELOAD),
    (replace(loaded("defaulton=0"), **UNLOADED), BAD, "has no defaulton", CORRECT),
])
def test_option_that_does_not_hold_is_named(facts: Facts, level, text, fix) -> None:
    (finding,) = [one for one in found(facts, NOTE, BAD) if one.subject == "options"]
    assert finding.level == level and text in finding.text and CONF in finding.text
    assert finding.fix.startswith(fix)


@pytest.mark.parametrize("facts", [
    loaded("stall_ms=250", "default_on=1", "direct_call=on"),
    loaded("stall_ms=0xfa", "default_on"),
    loaded('"stall_ms=0xfa"', "default_on=enabled"),
    loaded("direct_call=1", direct_call="N"),  # it is not possible here
    loaded("stall_ms=9", "stall_ms=250"),  # the last counts
    replace(loaded("stall_ms=250"), known={"stall_ms": "uint"}),
    replace(loaded(), known={}),
])
def test_option_that_holds_is_no_finding(facts: Facts) -> None:
    assert found(facts, NOTE, BAD) == []


def test_blacklist_matters_where_systemd_reads_the_list() -> None:
    black = (Configured("blacklist", "", CONF),)
    facts = replace(FINE, configured=black)
    assert found(facts, NOTE, BAD) == []
    listing = "echo sluice >/etc/modules-load.d/sluice.conf"
    facts = replace(facts, at_boot=False, load_at_boot=listing)
    assert only(facts, NOTE) == Finding(
        NOTE, "module", f"not loaded at boot: {CONF} has: blacklist sluice",
        f"remove that from {CONF}; {listing}",
    )


def test_last_refusal_of_the_kernel() -> None:
    lines = [
        "[    1.2] sluice: loading out-of-tree module taints kernel.",
        "[    1.3] sluice: `1s' invalid for parameter `stall_ms'",
        "<3>[   12.345678] sluice: Unknown symbol tun_get_socket (err -2)",
        "[   13.0] sluice: hook: direct call",
    ]
    said = "sluice: Unknown symbol tun_get_socket (err -2)"
    assert modprobe.last_refusal(lines) == said
    assert modprobe.last_refusal(lines[:1] + lines[3:]) == ""
    assert modprobe.last_refusal([*lines, "[14.0] sluice: version 0.1.0, hook: x"]) == ""
