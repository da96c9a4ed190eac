# SPDX-License-Identifier: GPL-2.0-or-later
"""What the doctor finds in recorded facts, and its verdict."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from sluice import config, doctor, modprobe, packages, system
from sluice.cli import main
from sluice.devices import Setting, View
from sluice.doctor import BAD, GOOD, HOPELESS, NOTE, Facts, Finding, examine, verdict
from sluice.netlink import QUEUE_STATES
from sluice.system import QdiscStats, parse_signed_only
from tests.unit._machine import QEMU, QUEUE0, Machine

TAP0 = View(
    netns="",
    ifindex=2,
    name="tap0",
    kind="tap",
    up=True,
    owners=(QEMU,),
    qdisc="fq_codel",
    upstream=False,
    on=True,
    state="served",
    why="served",
    ring=1000,
    queue_count=1,
    tx_dropped=17,
    queues=(QUEUE0,),
)
# The line of 7.3's enabled_functions, shortened.
HOOKED = (
    "tun_net_xmit [tun] (1)           \ttramp: 0xffffffffc0456000 "
    "(transmit_entered+0x0/0xc0 [sluice]) ->transmit_entered+0x0/0xc0 [sluice]\n"
)
CONFIG = """\
CONFIG_MODULES=y
# CONFIG_PREEMPT_RT is not set
CONFIG_DYNAMIC_FTRACE=y
CONFIG_DYNAMIC_FTRACE_WITH_ARGS=y
"""
FINE = Facts(
    release="6.12.1-amd64",
    version="#1 SMP PREEMPT_DYNAMIC Debian",
    distribution=("debian",),
    kernel_config=CONFIG,
    dkms="sluice/0.1.0, 6.12.1-amd64, x86_64: installed",
    loaded="0.1.0",
    answers=True,
    secure_boot=False,
    traced=HOOKED,
    before=(TAP0,),
    views=(TAP0,),
)


UNLOADED = {"loaded": "", "traced": "", "views": ()}


def found(facts: Facts, *levels: str) -> list[Finding]:
    return [one for one in examine(facts) if one.level in levels]


def only(facts: Facts, level: str) -> Finding:
    (finding,) = found(facts, level)
    return finding


def tap(**changes: object) -> Facts:
    """One device that is not as it should be."""
    return replace(FINE, views=(replace(TAP0, **changes),))


def test_fine_machine() -> None:
    assert found(FINE, NOTE, BAD, HOPELESS) == []
    assert verdict(examine(FINE)) == (0, "no problem found")


@pytest.mark.parametrize(
    "change",
    [
        {"version": "#1 SMP PREEMPT_RT Debian"},
        {"kernel_config": CONFIG.replace("# CONFIG_PREEMPT_RT is not set",
                                         "CONFIG_PREEMPT_RT=y")},
        {"kernel_config": CONFIG.replace("DYNAMIC_FTRACE=y", "DYNAMIC_FTRACE=n")},
        {"kernel_config": CONFIG.replace("_WITH_ARGS=y", "_WITH_ARGS=n")},
        {"kernel_config": CONFIG.replace("CONFIG_MODULES=y", "")},
        {"release": "4.18.0-553.el8_10.x86_64"},
    ],
)
def test_unsuitable_kernels(change: dict) -> None:
    facts = replace(FINE, **change)
    code, text = verdict(examine(facts))
    assert code == 3 and text.startswith(f"not suitable: kernel {facts.release} ")


@pytest.mark.parametrize(
    ("change", "subject", "fix"),
    [
        ({"ftrace_enabled": "0\n"}, "kernel", "sysctl kernel.ftrace_enabled=1"),
        ({"tun": False}, "tun", "modprobe tun"),
        ({"loaded": "", "traced": "", "views": ()}, "module", "modprobe sluice"),
        ({**UNLOADED, "module_file": False}, "module", "depmod -a; modprobe sluice"),
        ({**UNLOADED, "module_file": False, "dkms": ""}, "dkms",
         "dkms install -m sluice"),
        ({**UNLOADED, "module_file": False, "dkms": "", "module_source": False}, "dkms",
         "make deb && apt install ./out/"),
        ({**UNLOADED, "module_file": False, "dkms": None}, "dkms", "apt install dkms"),
        ({**UNLOADED, "module_file": False, "headers": False, "dkms": "another"},
         "headers", "apt install linux-headers-6.12.1-amd64"),
        ({**UNLOADED, "module_file": False, "modules_gone": True, "headers": False,
          "dkms": "another", "tun": False}, "kernel", "reboot"),
        ({**UNLOADED, "timer_resolution": 0.004}, "kernel", "remove highres=off from"),
        ({**UNLOADED, "signed_only": "lockdown", "secure_boot": True}, "signing",
         "dkms generate_mok"),
        ({"timer_resolution": 0.004}, "kernel", "remove highres=off from"),
        ({"drift": ("not loaded: tap0 (/etc/sluice.conf:1)",)}, "rules", "sluice apply"),
        ({"answers": False}, "module", "rmmod sluice; modprobe sluice; dmesg"),
        ({"answers": False, "module_file": False}, "module", "rmmod sluice; load it as"),
        ({"traced": ""}, "hook", "rmmod sluice; modprobe sluice"),
        ({"traced": "", "ftrace_enabled": "0"}, "kernel", "sysctl kernel.ftrace"),
        ({"drift": ("not loaded: a", "not loaded: b")}, "rules", "sluice apply"),
        ({"wrongs": ("/etc/sluice.conf:3: limit 'x' is odd",)},
         "rules", "sluice config check"),
    ],
)
def test_things_to_mend(change: dict, subject: str, fix: str) -> None:
    facts = replace(FINE, **change)
    finding = only(facts, BAD)
    assert finding.subject == subject and finding.fix.startswith(fix)
    assert verdict(examine(facts)) == (1, "1 problem found")


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"qdisc": "noqueue"}, "sluice on tap0 --qdisc fq_codel"),
        ({"qdisc": "noqueue", "netns": "red"},
         "sluice on tap0 --qdisc fq_codel"),
        ({"netns": "red", "queues": (replace(QUEUE0, state="stalled"),)},
         "sluice status tap0 --netns red"),
        ({"ring": 10, "netns": "4711"},
         "nsenter -t 4711 -n ip link set dev tap0 txqueuelen 1000"),
        ({"state": "refused", "why": "refused: odd"}, "sluice doctor --report"),
        ({"ring": 10}, "ip link set dev tap0 txqueuelen 1000"),
        ({"ring": 10, "netns": "red", "kind": "tun"},
         "ip -n red link set dev tap0 txqueuelen 500"),
        ({"queues": (replace(QUEUE0, state="stalled"),)}, "sluice status tap0"),
        ({"queues": (replace(QUEUE0, stalls=1),)}, "sluice status tap0"),
        ({"tx_dropped": 18}, "sluice watch tap0"),
    ],
)
def test_devices_to_mend(changes: dict, fix: str) -> None:
    assert only(tap(**changes), BAD).fix == fix


@pytest.mark.parametrize(
    ("name", "netns", "fix"),
    [
        ("$(reboot)", "", "sluice on '$(reboot)' --qdisc fq_codel"),
        ("*", "", "sluice on '[*]' --qdisc fq_codel"),
        ("-h", "", "sluice on '[-]h' --qdisc fq_codel"),
    ],
)
def test_names_do_not_command_the_shell(name: str, netns: str, fix: str) -> None:
    facts = tap(qdisc="noqueue", name=name, netns=netns)
    assert only(facts, BAD).fix == fix


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"on": False, "state": "off", "why": "off"}, "off"),
        ({"ring": 10000}, "a ring of 10000 adds delay"),
        ({"queues": (replace(QUEUE0, rescued=3),)}, "3 lost timers"),
    ],
)
def test_devices_worth_a_note(changes: dict, text: str) -> None:
    assert only(tap(**changes), NOTE).text.startswith(text)


def test_queue_whose_qdisc_must_not_fill_is_named_with_what_avoids_it() -> None:
    queues = (QUEUE0, replace(QUEUE0, id=1, state="lockless"))
    views = (replace(TAP0, netns="blue", queues=queues),)
    risk = only(replace(FINE, before=views, views=views), BAD)
    assert "pfifo_fast" in risk.text
    assert risk.fix == (
        "sysctl net.core.default_qdisc=fq_codel; "
        "tc -n blue qdisc replace dev tap0 root handle 1: mq"
    )


BYPASS = "3000 packets passed the ring and the hook saw none"


@pytest.mark.parametrize(
    ("packets", "checks", "state", "told"),
    [
        (3000, 0, "served", True),  # a live patch without ftrace, or XDP
        (3000, 1, "served", False),  # the hook saw them
        (2000, 0, "served", False),  # they may have been in the ring before
        (3000, 0, "off", False),
    ],
)
def test_packets_that_the_hook_does_not_see_are_a_problem(
    packets: int, checks: int, state: str, told: bool
) -> None:
    queue = replace(QUEUE0, checks=QUEUE0.checks + checks)
    now = replace(TAP0, tx_packets=packets, queues=(queue,), state=state)
    facts = replace(FINE, before=(replace(TAP0, state=state),), views=(now,))
    assert any(one.text.startswith(BYPASS) for one in found(facts, BAD)) == told


def test_old_stalls_and_drops_are_a_note() -> None:
    view = replace(TAP0, queues=(replace(QUEUE0, stalls=2, drops=1),))
    notes = found(replace(FINE, before=(view,), views=(view,)), NOTE)
    assert [one.text for one in notes] == [
        "2 stalls so far, none in the last 1 s: the reader paused for 250 ms or more",
        "1 drop at the ring while on, none in the last 1 s",
    ]
    assert verdict(notes)[0] == 0


@pytest.mark.parametrize(
    ("changes", "level", "fix"),
    [
        ({}, BAD, "sluice watch tap0"),
        ({"upstream": True, "state": "upstream"}, BAD, "sluice watch tap0"),
        ({"upstream": True, "on": False, "state": "upstream"}, BAD, "sluice watch tap0"),
        # The cause is another finding.
        ({"on": None, "state": "stock"}, NOTE, ""),
        ({"on": False, "state": "off"}, NOTE, ""),
        ({"qdisc": "noqueue"}, NOTE, ""),
        ({"state": "refused", "why": "refused: odd"}, NOTE, ""),
        ({"queues": (replace(QUEUE0, state="lockless"),)}, NOTE, ""),
        ({"queues": (replace(QUEUE0, state="stalled"),)}, NOTE, ""),
    ],
)
def test_drops_are_a_problem_if_no_other_finding_is_their_cause(
    changes: dict, level: str, fix: str
) -> None:
    view = replace(TAP0, tx_dropped=18, **changes)
    findings = [*doctor.check_device(view, TAP0, FINE)]
    (finding,) = [one for one in findings if one.text.startswith("the ring drops: 1 pa")]
    assert (finding.level, finding.fix) == (level, fix)
    fixes = [one.fix for one in findings if one.fix]
    assert len(fixes) == len(set(fixes)), findings


ILL = replace(
    FINE,
    kernel_config=None,
    ftrace_enabled="0",
    headers=False,
    dkms=None,
    loaded="0.0.9",
    at_boot=False,
    load_at_boot="systemctl enable sluice",
    tun=False,
    traced=HOOKED.replace("(1) ", "(3) R I "),
    wrongs=("/etc/sluice.conf:3: limit 'x' is odd",),
    unread=("netns red: cannot be entered; run it as root",),
    views=(
        replace(TAP0, ring=9000, tx_dropped=18, queues=(replace(QUEUE0, stalls=2),)),
        replace(TAP0, ifindex=3, on=False, state="off", ring=10),
        replace(TAP0, ifindex=4, qdisc="noqueue", queues=(replace(QUEUE0, drops=1),)),
        replace(TAP0, ifindex=5, state="refused", why="refused: odd"),
    ),
)


# What is said -> how the command begins that mends it.
MENDS = (
    ("ftrace is switched off", "sysctl kernel.ftrace_enabled=1"),
    ("/dev/net/tun does not exist", "modprobe tun"),
    ("headers for .* are missing", "apt install linux-headers-6.12.1-amd64"),
    ("headers for .* are missing", "install the headers of kernel 6.12.1-amd64"),
    ("^not installed: a new kernel gets no module", "apt install dkms"),
    ("^not installed: a new kernel gets no module", "install dkms"),
    ("^does not know sluice", "dkms install -m sluice"),
    ("^has no module for", "dkms install -m sluice"),
    ("DKMS has no key", "dkms generate_mok"),
    ("whether /k is enrolled cannot be read", "mokutil --import /k; reboot"),
    ("^not loaded: stock behaviour$", "modprobe sluice"),
    ("^no module for .* installed", "dkms install -m sluice"),
    ("does not answer", "rmmod sluice; modprobe sluice; dmesg"),
    (r"^version 0\.0\.9 loaded, command", "rmmod sluice; modprobe sluice"),
    ("^not loaded at boot", "systemctl enable sluice"),
    ("enabled_functions cannot be seen", "mount -t tracefs tracefs /sys/kernel"),
    ("is not hooked, though", "rmmod sluice; modprobe sluice"),
    ("other users? of tun_net_xmit", "grep tun_net_xmit /sys/kernel/tracing/"),
    ("is live-patched", "ls /sys/kernel/livepatch"),
    ("limit 'x' is odd", "sluice config check"),
    ("cannot be entered", "run it as root"),
    ("^a ring of 9000 adds delay", "ip link set dev tap0 txqueuelen 1000"),
    ("^a ring of 10 is too short", "ip link set dev tap0 txqueuelen 1000"),
    ("^stalled: the reader read nothing", "sluice status tap0"),
    ("^off", "sluice on tap0"),
    ("^noqueue", "sluice on tap0 --qdisc fq_codel"),
    ("^1 drop at the ring while on", "sluice watch tap0"),
    ("^refused: odd", "sluice doctor --report"),
)


@pytest.mark.parametrize(
    "facts",
    [
        ILL,
        replace(ILL, dkms="", traced=None),
        replace(ILL, dkms="another", traced="", answers=False),
        replace(ILL, loaded="", signed_only="lockdown", secure_boot=True),
        replace(ILL, loaded="", module_file=False, signed_only="lockdown",
                secure_boot=True, signing_key="/k"),
        replace(ILL, distribution=()),
    ],
)
def test_each_finding_has_the_command_that_mends_it(facts: Facts) -> None:
    findings = [one for one in found(facts, NOTE, BAD)
                if not re.search("assumed|^the ring drops", one.text)]
    assert len(findings) > 10, "hardly anything is amiss: proves nothing"
    wrong = [
        one
        for one in findings
        if not any(
            re.search(text, one.text) and one.fix.startswith(fix) for text, fix in MENDS
        )
    ]
    assert wrong == []


def test_upstream_flag_excuses_noqueue_and_off() -> None:
    facts = tap(upstream=True, state="upstream", on=False, qdisc="noqueue")
    assert found(facts, NOTE, BAD) == []


LOCKED = {"signed_only": "lockdown"}


@pytest.mark.parametrize(
    ("change", "level", "fix"),
    [
        # Secure Boot without enforcement asks for nothing.
        ({}, GOOD, ""),
        ({"secure_boot": False}, GOOD, ""),
        (LOCKED, BAD, "dkms generate_mok"),
        ({**LOCKED, "signing_key": "/k", "key_trusted": False}, BAD,
         "mokutil --import /k; reboot"),
        ({**LOCKED, "signing_key": "/k", "key_trusted": False, "mokutil": False}, BAD,
         "apt install mokutil; mokutil --import /k"),
        ({**LOCKED, "signing_key": "/k"}, NOTE, "mokutil --import /k"),
        ({**LOCKED, "signing_key": "/k", "key_trusted": True}, GOOD, ""),
        ({**LOCKED, "loaded": "0.1.0"}, GOOD, ""),
        ({"secure_boot": None, "signed_only": "module.sig_enforce"}, BAD, "dkms gen"),
        ({**LOCKED, "secure_boot": None, "signing_key": "/k"}, BAD, "remove lockdown="),
    ],
)
def test_signing(change: dict, level: str, fix: str) -> None:
    facts = replace(FINE, **{"secure_boot": True, "loaded": "", **change})
    (finding,) = doctor.check_signing(facts)
    assert finding.level == level and finding.fix.startswith(fix)
    assert finding.subject == "signing"
    state = {True: "Secure Boot on", False: "Secure Boot off", None: "no EFI"}
    assert finding.text.startswith(f"{state[facts.secure_boot]}; ")
    if level != GOOD:
        assert f"{facts.signed_only} requires signed modules" in finding.text


def test_nothing_is_signed_where_no_module_comes_in() -> None:
    """kernel.modules_disabled=1, a container, a kernel without modules."""
    unloaded = replace(FINE, loaded="", traced="", signed_only="lockdown", dkms=None,
                       headers=False, module_file=False)
    for change, code, fix in (
        ({"modules_disabled": True, "headers": True, "module_file": True,
          "load_at_boot": "systemctl enable sluice"}, 1,
         "systemctl enable sluice; reboot"),
        ({"container": "lxc"}, 1, "on the host: modprobe sluice"),
        ({"has_modules": False}, 3, ""),
        ({"version": "#1 SMP PREEMPT_RT"}, 3, ""),
    ):
        facts = replace(unloaded, views=(), before=(), **change)
        (problem,) = [one for one in found(facts, BAD, HOPELESS)]
        assert problem.fix == fix, problem
        assert problem.subject in ("module", "kernel") and problem.text
        assert verdict(examine(facts))[0] == code
        assert not any("mokutil" in one.fix for one in examine(facts))


@pytest.mark.parametrize(
    ("sig_enforce", "lockdown", "by"),
    [
        (None, None, ""),
        ("N\n", "[none] integrity confidentiality\n", ""),
        ("Y\n", "[none] integrity confidentiality\n", "module.sig_enforce"),
        ("N\n", "none [integrity] confidentiality\n", "lockdown"),
        ("N\n", "none integrity [confidentiality]\n", "lockdown"),
    ],
)
def test_who_asks_for_signatures(
    sig_enforce: str | None, lockdown: str | None, by: str
) -> None:
    assert parse_signed_only(sig_enforce, lockdown) == by


@pytest.mark.parametrize(
    ("dkms", "text"),
    [
        (None, "not installed"),
        ("", "does not know sluice"),
        (system.NO_ANSWER, "did not answer"),
        ("sluice/0.1.0, 6.1.0, x86_64: installed", "has no module for 6.12.1"),
        # DKMS 2.8 and 3 write it differently.
        ("sluice, 0.1.0, 6.12.1-amd64, x86_64: installed", "module for 6.12.1-amd64"),
    ],
)
def test_dkms(dkms: str | None, text: str) -> None:
    headers, finding = doctor.check_building(replace(FINE, dkms=dkms))
    assert headers.subject == "headers" and headers.level == GOOD
    assert finding.subject == "dkms" and finding.text.startswith(text)
    built = text.startswith("module for")
    assert finding.level == (GOOD if built else NOTE) and built == (not finding.fix)


@pytest.mark.parametrize("dkms", [None, "", "sluice/0.1.0, 6.1.0, x86_64: installed"])
def test_dkms_matters_without_a_module(dkms: str | None) -> None:
    facts = replace(FINE, dkms=dkms, loaded="", module_file=False)
    assert [one.level for one in doctor.check_building(facts)] == [GOOD, BAD]


def test_missing_headers_matter_only_without_a_module() -> None:
    facts = replace(FINE, headers=False)
    assert only(facts, NOTE).fix == (
        "apt install linux-headers-6.12.1-amd64 linux-headers-amd64"
    )
    facts = replace(facts, loaded="", module_file=False)
    assert {one.subject for one in found(facts, BAD)} == {"headers"}


def test_other_users_of_the_hook() -> None:
    traced = HOOKED.replace("(1)", "(3)") + "tcp_sendmsg (1) R\n"
    finding = only(replace(FINE, traced=traced), NOTE)
    assert finding.text.startswith("2 other users of tun_net_xmit")
    assert found(replace(FINE, traced=traced.replace("(3)    ", "(1) R I")), NOTE)


DIRECT = (
    "tun_net_xmit [tun] (1) R   D   M \ttramp: ftrace_regs_caller+0x0/0x61 "
    "(call_direct_funcs+0x0/0x20)\n"
    "\tdirect-->sluice_entry+0x0/0xb0 [sluice]\n"
    "ftrace_pin_target [sluice] (1)           \ttramp: 0xffffffffc0457000 "
    "(transmit_entered+0x0/0xb0 [sluice]) ->transmit_entered+0x0/0xb0 [sluice]\n"
)


def hook_of(facts: Facts) -> str:
    (hook,) = (one for one in found(facts, GOOD) if one.subject == "hook")
    return hook.text


def test_a_direct_call_is_ours() -> None:
    facts = replace(FINE, traced=DIRECT)
    assert not found(facts, NOTE, BAD)
    assert "without effect" not in "".join(one.text for one in found(facts, GOOD))
    assert hook_of(facts).endswith("direct call: closed to BPF fentry programs")


def test_a_direct_call_beside_a_live_patch() -> None:
    traced = DIRECT.replace("(1) R   D", "(2) R I D")
    texts = [one.text for one in found(replace(FINE, traced=traced), NOTE)]
    assert texts[0].startswith("1 other user of tun_net_xmit")
    assert "live-patched" in texts[1]


def test_a_direct_call_of_old_has_the_mark_of_a_live_patch() -> None:
    traced = DIRECT.replace("(1) R   D   M", "(1) R I D")
    facts = replace(FINE, file_features="direct_ip", traced=traced)
    assert not [one for one in found(facts, NOTE) if one.subject == "ftrace"]
    assert hook_of(facts).endswith("closed to live patches and BPF fentry programs")


def test_without_root_the_hook_is_not_seen() -> None:
    assert only(replace(FINE, traced=None, root=False), NOTE).fix == "run it as root"


def test_text_is_narrow_and_ends_with_the_verdict() -> None:
    facts = replace(FINE, headers=False, dkms=None, at_boot=False)
    lines = [str(line) for line in doctor.format_findings(examine(facts))]
    assert max(len(line) for line in lines) < 90  # with a terminal's codes
    assert "no problem found" in str(lines[-1])


@pytest.fixture
def patient(machine: Machine, monkeypatch) -> Machine:
    """The recorded machine, for the whole command."""
    monkeypatch.setattr(doctor, "SAMPLE_SECONDS", 0.0)
    answers = {
        "read_kernel_config": CONFIG,
        "has_headers": True,
        "has_module_file": True,
        "has_tun": True,
        "read_container": "",
        "read_modules_disabled": False,
        "load_at_boot_command": "systemctl enable sluice",
        "has_modules": True,
        "has_tool": True,
        "loads_at_boot": True,
        "read_dkms": None,
        "read_signing_key": ("", None),
        "read_secure_boot": False,
        "read_signed_only": "",
        "read_enabled_functions": HOOKED,
        "read_distribution": ("debian",),
        "read_os_release": {"ID": "debian"},
        "is_ostree": False,
        "read_init": system.SYSTEMD,
        "has_udev": True,
        "read_file_version": "",
        "read_file_info": "",
        "read_parameters": {"stall_ms": "250"},
        "read_kernel_lines": ["[1.0] sluice: hello"],
    }
    for name, answer in answers.items():
        monkeypatch.setattr(system, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(modprobe, "read_configured", lambda: ())
    monkeypatch.setattr(packages, "modules_are_gone", lambda _: False)
    return machine


def test_command(patient: Machine, capsys) -> None:
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 problem found"  # tun0 has noqueue
    assert "      sluice on tun0 --qdisc fq_codel" in lines
    assert max(len(line) for line in lines) < 80


def test_json(patient: Machine, capsys) -> None:
    assert main(["doctor", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "1 problem found"
    assert {one["level"] for one in answer["findings"]} >= {"good", "bad"}
    assert main(["doctor", "--json", "--report"]) == 1
    assert json.loads(capsys.readouterr().out)["facts"]["parameters"]


def test_report_has_everything(patient: Machine, capsys) -> None:
    patient.namespaces["red"] = 2
    assert main(["doctor", "--report"]) == 1
    said = capsys.readouterr().out
    for text in ("== parameters\nstall_ms=250", "== rules\nnone", "sluice: hello",
                 "tap0 (tap): on, served", "longest_stop_ns=12300000", "netns    red",
                 HOOKED.strip(), "problem found"):
        assert text in said, text


def test_namespace_that_cannot_be_entered_is_a_warning(patient, capsys) -> None:
    patient.namespaces["red"] = 2
    patient.stale = {"red"}
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "WARN  netns: red: cannot be entered\n      see: ip netns\n" in said


def test_only_the_namespace_that_is_named(patient: Machine, capsys) -> None:
    patient.namespaces["red"] = 2
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "1 problem found"
    assert main(["doctor", "--json", "--netns", "red"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "1 problem found"
    (bad,) = [one for one in answer["findings"] if one["level"] == "bad"]
    assert bad["subject"] == "tun0@red"
    patient.links, patient.devices, patient.queues = [], [], []
    assert main(["doctor", "--netns", "red"]) == 0
    assert "no tun or tap device in network namespace red" in capsys.readouterr().out
    assert main(["doctor", "--netns", ""]) == 0
    assert "no tun or tap device in this network namespace" in capsys.readouterr().out
    assert main(["doctor"]) == 0
    assert "no tun or tap device in any network namespace" in capsys.readouterr().out
    assert main(["doctor", "--netns", "blue"]) == 1
    assert capsys.readouterr().err.startswith("sluice: netns blue: ")


@pytest.mark.parametrize(
    "name",
    ["read_module", "read_links", "read_dkms", "read_signing_key", "read_text",
     "read_kernel_config", "read_enabled_functions", "read_distribution", "read_rules",
     "read_module_version", "read_owners", "read_qdiscs"],
)
def test_whatever_fails_does_not_end_the_doctor(
    patient, capsys, monkeypatch, name: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error", "/x")

    monkeypatch.setattr(system, name, fail)
    assert main(["doctor"]) in (0, 1)
    said = capsys.readouterr()
    assert "WARN  doctor: could not be read: " in said.out and not said.err
    assert "found" in said.out.splitlines()[-1]


def test_files_that_cannot_be_read_are_a_finding(patient, capsys) -> None:
    config.PATH.mkdir()
    assert main(["doctor"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "FAIL rules: " in said and "is a directory" in said


def test_qdisc_that_drops_is_told_from_a_ring_that_drops() -> None:
    stats = QdiscStats(drops=7, marks=2)
    after = replace(TAP0, qdisc_stats=stats)
    facts = replace(FINE, views=(after,))
    assert found(facts, BAD) == []
    (told,) = [one for one in found(facts, GOOD) if one.subject == "tap0"]
    assert told.text == (
        "the qdisc (fq_codel) limits the queue as it should: 7 dropped, 2 marked in "
        "the last 1 s"
    )


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ((5, 3), (7, 3), "2 dropped in"),
        ((5, 3), (5, 4), "0 dropped, 1 marked in"),
        ((5, 3), (2, 4), "0 dropped, 1 marked in"),  # the qdisc was replaced
        ((5, 3), (6, 3), "1 dropped in"),
        ((5, 3), (5, 3), ""),
        ((5, None), (5, None), ""),
    ],
)
def test_what_the_qdisc_did_is_counted_from_the_first_look(before, now, told) -> None:
    old, view = (
        replace(TAP0, qdisc_stats=QdiscStats(drops=drops, marks=marks))
        for drops, marks in (before, now)
    )
    texts = [one.text for one in doctor.check_drops(view, old, "in the last 1 s")]
    assert len(texts) == bool(told) and all(told in text for text in texts)


@pytest.mark.parametrize("state", ["served", "off"])
def test_drops_of_stock_are_said_to_be(state: str) -> None:
    view = replace(TAP0, state=state, tx_dropped=TAP0.tx_dropped + 1)
    (finding,) = doctor.check_drops(view, TAP0, "now")
    stock = "" if state == "served" else "; stock drops at a full ring"
    assert finding.text == f"the ring drops: 1 packet now{stock}"


def test_queue_whose_reader_is_dead_is_named_among_several() -> None:
    dead = replace(QUEUE0, id=1, state="stalled")
    (finding,) = doctor.check_reader(replace(TAP0, queues=(QUEUE0, dead)), TAP0, 1)
    assert finding.text == "stalled: too few packets are read from queue 1"
    (finding,) = doctor.check_reader(replace(TAP0, queues=(dead,)), TAP0, 1)
    assert finding.text == "stalled: the reader read nothing in the last 1 s"


def test_slow_reader_is_named_while_its_queue_is_stopped_again() -> None:
    old = replace(TAP0, queues=(replace(QUEUE0, state="stalled", stalls=3),))
    for state, level in (("stopped", BAD), ("open", NOTE)):
        queue = replace(QUEUE0, state=state, stalls=3)
        now = replace(TAP0, queues=(queue,), tx_packets=TAP0.tx_packets + 10)
        (finding,) = doctor.check_reader(now, old, 1)
        assert finding.level == level
        slow = finding.text.startswith("the reader is slow: 10 packets/s, 3 stalls; ")
        assert slow == (level == BAD), finding


@pytest.mark.parametrize(
    ("packets", "text", "fix"),
    [
        (0, "stalled: the reader read nothing in the last 2 s", "sluice status tap0"),
        (40, "the reader is slow: 20 packets/s, 1 stall; with this limit a blocking "
         "sender may wait 5 s",
         "sluice on tap0 --stall-ms 5000"),
        (399, "the reader is slow: 200 packets/s, 1 stall; with this limit a blocking "
         "sender may wait 0.6 s",
         "sluice on tap0 --stall-ms 600"),
        (400, "stalled: the reader pauses for 250 ms or more", "sluice status tap0"),
    ],
)
def test_pace_of_a_stalled_reader_is_counted(packets: int, text: str, fix: str) -> None:
    queue = replace(QUEUE0, state="stalled", stalls=1)
    view = replace(TAP0, tx_packets=TAP0.tx_packets + packets, queues=(queue,))
    (finding,) = doctor.check_reader(view, TAP0, 2)
    assert (finding.level, finding.text, finding.fix) == (BAD, text, fix)


def test_device_that_was_not_served_before_tells_nothing_of_the_hook() -> None:
    now = replace(TAP0, tx_packets=3000)
    assert [*doctor.check_bypass(now, replace(TAP0, state="off"), FINE)] == []
    (finding,) = doctor.check_bypass(now, TAP0, FINE)
    assert finding.fix == doctor.RELOAD
    two = replace(now, queue_count=2)
    assert [*doctor.check_bypass(two, TAP0, FINE)] == []


@pytest.mark.parametrize(("ring", "said"), [(64, False), (63, True), (5000, False),
                                            (5001, True)])
def test_rings_that_are_short_or_long(ring: int, said: bool) -> None:
    texts = [one.text for one in doctor.check_setup(replace(TAP0, ring=ring))]
    assert any(str(ring) in text for text in texts) == said


def test_what_a_kernel_lacks_is_named() -> None:
    version = "#1 SMP"
    assert [*doctor.kernel_lacks(version, {})] == []
    assert [*doctor.kernel_lacks(version, {}, has_modules=False)] == [
        "cannot load modules (CONFIG_MODULES)"
    ]
    known = doctor.parse_config("# x\nCONFIG_MODULES=y\nCONFIG_DYNAMIC_FTRACE=z\n=y\n")
    assert known == {"CONFIG_MODULES": "y", "CONFIG_DYNAMIC_FTRACE": "z"}
    assert [*doctor.kernel_lacks(version, known)] == [
        "lacks CONFIG_DYNAMIC_FTRACE",
        "has neither CONFIG_DYNAMIC_FTRACE_WITH_ARGS nor "
        "CONFIG_DYNAMIC_FTRACE_WITH_REGS",
    ]


def test_coarse_timers_are_said_in_milliseconds() -> None:
    (finding,) = found(replace(FINE, timer_resolution=0.004), BAD)
    assert finding.text == (
        "high-resolution timers are off (4 ms): a stopped ring would run empty"
    )


@pytest.mark.parametrize(("subject", "facts"), doctor.RESTS_ON.items())
def test_nothing_is_fine_that_could_not_be_read(subject: str, facts) -> None:
    before = [one for one in examine(replace(FINE, views=())) if one.subject == subject]
    assert [one.level for one in before] == [GOOD]
    for name in facts:
        findings = examine(replace(FINE, views=(), failed=(f"{name} (odd)",)))
        assert not [one for one in findings if one.subject == subject]
        assert verdict(findings) == (0, "no problem found in what could be read")


@pytest.mark.parametrize(("root", "fix"), [(True, ""), (False, "run it as root")])
def test_root_is_asked_for_only_where_it_is_missing(root: bool, fix: str) -> None:
    facts = Facts(root=root, failed=("dkms (odd)",))
    assert [*doctor.check_reading(facts)] == [
        Finding(NOTE, "doctor", "could not be read: dkms (odd)", fix)
    ]


@pytest.mark.parametrize(
    ("pace", "wanted"),
    [(200, 0), (199, 600), (150, 700), (10, 10000), (1, 60000)],
)
def test_stall_ms_that_a_slow_reader_needs(pace: float, wanted: int) -> None:
    assert doctor.patient_stall_ms(TAP0, pace) == wanted


@pytest.mark.parametrize("loaded", ["0.0.1", "9.9"])
def test_module_of_another_version_is_a_warning(loaded: str) -> None:
    assert only(replace(FINE, loaded=loaded), NOTE).fix == doctor.RELOAD


def test_container_is_not_told_to_load_the_module_at_boot() -> None:
    facts = replace(FINE, at_boot=False, load_at_boot="systemctl enable sluice")
    assert only(facts, NOTE).fix == "systemctl enable sluice"
    assert found(replace(facts, container="lxc"), NOTE, BAD) == []


@pytest.mark.parametrize("state", ["off", "down", "unread", "upstream", "refused"])
def test_function_need_not_be_hooked_if_nothing_is_served(state: str) -> None:
    facts = replace(FINE, traced="", views=(replace(TAP0, state=state),))
    assert [*doctor.check_tracing(facts)] == []
    assert only(replace(FINE, traced=""), BAD).subject == "hook"


@pytest.mark.parametrize(
    ("loaded", "users", "others"),
    [("", 1, "1 other user "), ("", 2, "2 other users "), ("0.1.0", 1, ""),
     ("0.1.0", 2, "1 other user ")],
)
def test_other_users_of_the_function_are_counted(loaded, users, others) -> None:
    traced = f"tun_net_xmit [tun] ({users}) \t\tx\nanother (1)\n"
    findings = [*doctor.check_tracing(replace(FINE, loaded=loaded, traced=traced))]
    hooked = [one for one in findings if one.text == "tun_net_xmit is hooked"]
    assert len(hooked) == bool(loaded)
    (notes,) = [[one.text for one in findings if one.level == NOTE]]
    assert len(notes) == bool(others) and all(one.startswith(others) for one in notes)
    assert findings[-1].text.startswith("1 other function traced")
    alone = replace(FINE, loaded=loaded, traced=traced.partition("\n")[0])
    assert len([*doctor.check_tracing(alone)]) == len(findings) - 1


@pytest.mark.parametrize(
    ("sources", "text"),
    [([], "off"), (["by hand"], "off (by hand)"), (["default", "/c:3"], "off (/c:3)")],
)
def test_device_that_is_off_says_by_whom(sources: list[str], text: str) -> None:
    names = ["limit", "on"][-len(sources) :]
    settings = tuple(
        Setting(name, 0, source) for name, source in zip(names, sources)  # noqa: B905
    )
    view = replace(TAP0, on=False, state="off", settings=settings)
    (finding,) = doctor.check_setup(view)
    assert (finding.level, finding.text) == (NOTE, text)


@pytest.mark.parametrize("on", [True, None])
def test_noqueue_is_a_problem_also_without_the_module(on: bool | None) -> None:
    (finding,) = doctor.check_setup(replace(TAP0, on=on, qdisc="noqueue"))
    assert finding.text == "noqueue: nothing to stop"
    for qdisc in ("cake", "pfifo_fast"):
        assert [*doctor.check_setup(replace(TAP0, on=on, qdisc=qdisc))] == []


def test_only_lockless_queues_are_blamed_on_the_kernel() -> None:
    for state in QUEUE_STATES:
        view = replace(TAP0, queues=(QUEUE0, replace(QUEUE0, id=1, state=state)))
        assert len([*doctor.check_lockless(view)]) == (state == "lockless")


@pytest.mark.parametrize("qdisc", ["cake", "noqueue", "pfifo_fast"])
@pytest.mark.parametrize(
    ("change", "fix"),
    [
        ({}, "sluice watch tap0"),
        ({"state": "upstream", "upstream": True}, "sluice watch tap0"),
        ({"state": "off", "on": False}, "sluice on tap0"),
        ({"state": "", "on": None}, ""),
    ],
)
def test_what_ends_drops(change: dict, fix: str, qdisc: str) -> None:
    view = replace(TAP0, qdisc=qdisc, **change)
    if qdisc == "noqueue" and view.on is not None and not view.upstream:
        fix = "sluice on tap0 --qdisc fq_codel"
    old = replace(view, tx_dropped=view.tx_dropped - 1)
    (finding,) = doctor.check_drops(view, old, "now")
    assert (finding.level, finding.fix) == (BAD, fix)


def test_one_finding_for_all_devices_of_which_the_same_is_found() -> None:
    taps = [replace(TAP0, name=f"tap{n}", ifindex=n, ring=9) for n in range(5)]
    findings = examine(replace(FINE, before=(), views=tuple(taps)))
    assert verdict(findings) == (1, "1 problem found")
    lines = [str(line) for line in doctor.format_findings(findings)]
    (first,) = [n for n, line in enumerate(lines) if line.startswith("FAIL")]
    assert lines[first].startswith("FAIL  tap0, tap1, tap2 and 2 more: a ring of 9")
    assert "for tap0:" in " ".join(lines[first : first + 3])
    assert any("ip link set dev tap0" in line for line in lines)
