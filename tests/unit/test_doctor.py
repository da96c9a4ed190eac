# SPDX-License-Identifier: GPL-2.0-or-later
"""What the doctor finds in recorded facts, and its verdict."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sluice import doctor, modprobe, packages, system
from sluice.cli import main
from sluice.devices import Setting, View
from sluice.doctor import BAD, GOOD, HOPELESS, NOTE, Facts, Finding, examine, verdict
from sluice.system import QdiscStats
from tests.unit._machine import QEMU, QUEUE0, Machine, raising

TAP0 = View(
    netns="", ifindex=2, name="tap0", kind="tap", up=True, owners=(QEMU,),
    qdisc="fq_codel", upstream=False, on=True, state="served", why="served", ring=1000,
    queue_count=1, tx_dropped=17, queues=(QUEUE0,),
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
    release="6.12.1-amd64", version="#1 SMP PREEMPT_DYNAMIC Debian",
    distribution=("debian",), kernel_config=CONFIG,
    dkms="sluice/0.1.0, 6.12.1-amd64, x86_64: installed", loaded="0.1.0", answers=True,
    secure_boot=False, traced=HOOKED, before=(TAP0,), views=(TAP0,),
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


@pytest.mark.parametrize(("change", "lacks"), [
    ({"version": "#1 SMP PREEMPT_RT Debian"}, "is PREEMPT_RT"),
    ({"kernel_config": CONFIG + "CONFIG_PREEMPT_RT=y\n"}, "is PREEMPT_RT"),
    ({"kernel_config": CONFIG.replace("DYNAMIC_FTRACE=y", "DYNAMIC_FTRACE=n")},
     "lacks CONFIG_DYNAMIC_FTRACE"),
    ({"kernel_config": CONFIG.replace("_WITH_ARGS=y", "_WITH_ARGS=n")},
     "has neither CONFIG_DYNAMIC_FTRACE_WITH_ARGS nor CONFIG_DYNAMIC_FTRACE_WITH"),
    ({"kernel_config": CONFIG.replace("CONFIG_MODULES=y", "")}, "cannot load module"),
    ({"has_modules": False}, "cannot load modules"),
    ({"release": "4.18.0-553.el8_10.x86_64"}, "is too old: sluice needs 5.10"),
    ({"release": "5.9.1"}, "is too old: sluice needs 5.10"),
])
def test_unsuitable_kernels(change: dict, lacks: str) -> None:
    facts = replace(FINE, **change)
    code, text = verdict(examine(facts))
    assert code == 3
    assert text.startswith(f"not suitable: kernel {facts.release} {lacks}")


@pytest.mark.parametrize(("change", "subject", "fix"), [
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
    ({**UNLOADED, "module_file": False, "dkms": "sluice/0.1.0, 6.1.0: installed"},
     "dkms", "dkms install -m sluice"),
    ({**UNLOADED, "module_file": False, "headers": False}, "headers", "apt install"),
    ({**UNLOADED, "module_file": False, "modules_gone": True, "headers": False,
      "dkms": "another", "tun": False}, "kernel", "reboot"),
    ({**UNLOADED, "timer_resolution": 0.004}, "kernel", "remove highres=off from"),
    ({**UNLOADED, "signed_only": "lockdown", "secure_boot": True}, "signing",
     "dkms generate_mok"),
    ({"timer_resolution": 0.004}, "kernel", "remove highres=off from"),
    ({**UNLOADED, "modules_disabled": True, "signed_only": "lockdown",
      "load_at_boot": "systemctl enable sluice"}, "module",
     "systemctl enable sluice; reboot"),
    ({**UNLOADED, "container": "lxc", "signed_only": "lockdown", "headers": False,
      "dkms": None, "module_file": False}, "module", "on the host: modprobe sluice"),
    ({"answers": False}, "module", "rmmod sluice; modprobe sluice; dmesg"),
    ({"answers": False, "module_file": False}, "module", "rmmod sluice; load it as"),
    ({"traced": ""}, "hook", "rmmod sluice; modprobe sluice"),
    ({"traced": "", "ftrace_enabled": "0"}, "kernel", "sysctl kernel.ftrace"),
    ({"drift": ("not loaded: a", "not loaded: b")}, "rules", "sluice apply"),
    ({"wrongs": ("/etc/sluice.conf:3: limit 'x' is odd",)},
     "rules", "sluice config check"),
])
def test_things_to_mend(change: dict, subject: str, fix: str) -> None:
    facts = replace(FINE, **change)
    finding = only(facts, BAD)
    assert finding.subject == subject and finding.fix.startswith(fix)
    assert verdict(examine(facts)) == (1, "1 problem found")


TUN = "tun_net_xmit"


@pytest.mark.parametrize(("change", "text", "fix"), [
    ({"headers": False}, "headers for 6.12.1-amd64 are missing: no module can be",
     "apt install linux-headers-6.12.1-amd64 linux-headers-amd64"),
    ({"headers": False, "distribution": ()}, "headers for 6.12.1-amd64 are missing",
     "install the headers of kernel 6.12.1-amd64"),
    ({"dkms": None}, "not installed: a new kernel gets", "apt install dkms"),
    ({"dkms": None, "distribution": ()}, "not installed: a new", "install dkms"),
    ({"dkms": ""}, "does not know sluice: a new kernel gets", "dkms install -m"),
    ({"dkms": "sluice/0.1.0, 6.1.0, x86_64: installed"},
     "has no module for 6.12.1-amd64", "dkms install -m sluice -v 0.1.0 -k 6.12.1"),
    ({"dkms": system.NO_ANSWER}, "did not answer", "dkms status -m sluice"),
    ({"loaded": "9.9"}, "version 9.9 loaded, command 0.1.0", doctor.RELOAD),
    ({"kernel_config": None}, "6.12.1-amd64: its configuration cannot be read", ""),
    ({"at_boot": False, "load_at_boot": "systemctl enable sluice"},
     "not loaded at boot", "systemctl enable sluice"),
    ({"unread": ("netns red: cannot be entered; see: ip netns",)},
     "red: cannot be entered", "see: ip netns"),
    ({"hidden": 2}, "2 namespaces cannot be entered", "run it as root"),
    ({"unfinished": "/etc/.x"}, "a command was killed before", "rm /etc/.x"),
    ({"traced": None}, "enabled_functions cannot be seen", "mount -t tracefs "),
    ({"traced": None, "root": False}, "enabled_functions cannot", "run it as root"),
    ({"traced": HOOKED.replace("(1)", "(3)")}, f"2 other users of {TUN}: each packet",
     f"grep {TUN} /sys/kernel/tracing/enabled_functions"),
    ({"traced": HOOKED.replace("(1)    ", "(1) R I")}, f"{TUN} is live-patched: the",
     "ls /sys/kernel/livepatch"),
])
def test_things_worth_a_note(change: dict, text: str, fix: str) -> None:
    finding = only(replace(FINE, **change), NOTE)
    assert finding.text.startswith(text) and finding.fix.startswith(fix)
    assert found(replace(FINE, **change), BAD) == []


@pytest.mark.parametrize(("changes", "fix"), [
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
])
def test_devices_to_mend(changes: dict, fix: str) -> None:
    assert only(tap(**changes), BAD).fix == fix


def test_names_do_not_command_the_shell() -> None:
    for name, shown in (("$(reboot)", "'$(reboot)'"), ("*", "'[*]'"), ("-h", "'[-]h'")):
        facts = tap(qdisc="noqueue", name=name)
        assert only(facts, BAD).fix == f"sluice on {shown} --qdisc fq_codel"


@pytest.mark.parametrize(("changes", "text"), [
    ({"on": False, "state": "off", "why": "off"}, "off"),
    ({"on": False, "state": "off", "settings": (
        Setting("limit", 0, "x"), Setting("on", 0, "by hand"))}, "off (by hand)"),
    ({"ring": 10000}, "a ring of 10000 adds delay"),
    ({"queues": (replace(QUEUE0, rescued=3),)}, "3 lost timers"),
])
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


SEEN = replace(QUEUE0, checks=QUEUE0.checks + 1)


@pytest.mark.parametrize(("before", "now", "told"), [
    ({}, {}, True),  # a live patch without ftrace, or XDP
    ({}, {"queues": (SEEN,)}, False),
    ({}, {"tx_packets": 2000}, False),  # they may have been in the ring before
    ({}, {"queue_count": 2}, False),
    ({"state": "off"}, {}, False),
    ({}, {"state": "off"}, False),
    ({"state": "off"}, {"state": "off"}, False),
])
def test_packets_that_the_hook_does_not_see_are_a_problem(before, now, told) -> None:
    old = replace(TAP0, **before)
    view = replace(TAP0, **{"tx_packets": 3000, **now})
    findings = found(replace(FINE, before=(old,), views=(view,)), BAD)
    text = "3000 packets passed the ring and the hook saw none"
    fixes = [one.fix for one in findings if one.text.startswith(text)]
    assert fixes == [doctor.RELOAD] * told


def test_old_stalls_and_drops_are_a_note() -> None:
    view = replace(TAP0, queues=(replace(QUEUE0, stalls=2, drops=1),))
    notes = found(replace(FINE, before=(view,), views=(view,)), NOTE)
    assert [one.text for one in notes] == [
        "2 stalls so far, none in the last 1 s: the reader paused for 250 ms or more",
        "1 drop at the ring while on, none in the last 1 s",
    ]
    assert verdict(notes)[0] == 0


@pytest.mark.parametrize(("changes", "level", "fix"), [
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
])
def test_drops_are_a_problem_if_no_other_finding_is_their_cause(
    changes: dict, level: str, fix: str
) -> None:
    view = replace(TAP0, tx_dropped=18, **changes)
    findings = [*doctor.check_device(view, TAP0, FINE, hooked=True)]
    (finding,) = [one for one in findings if one.text.startswith("the ring drops: 1 pa")]
    assert (finding.level, finding.fix) == (level, fix)
    assert ("; stock drops" in finding.text) is (view.state != "served")
    fixes = [one.fix for one in findings if one.fix]
    assert len(fixes) == len(set(fixes)), findings


def test_upstream_flag_excuses_noqueue_and_off() -> None:
    facts = tap(upstream=True, state="upstream", on=False, qdisc="noqueue")
    assert found(facts, NOTE, BAD) == []


LOCKED = {"signed_only": "lockdown"}


@pytest.mark.parametrize(("change", "level", "fix"), [
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
])
def test_signing(change: dict, level: str, fix: str) -> None:
    facts = replace(FINE, **{"secure_boot": True, "loaded": "", **change})
    (finding,) = doctor.check_signing(facts)
    assert finding.level == level and finding.fix.startswith(fix)
    assert finding.subject == "signing"
    state = {True: "Secure Boot on", False: "Secure Boot off", None: "no EFI"}
    assert finding.text.startswith(f"{state[facts.secure_boot]}; ")
    if level != GOOD:
        assert f"{facts.signed_only} requires signed modules" in finding.text


def test_each_dkms_writes_it_differently() -> None:
    good = Finding(GOOD, "dkms", "module for 6.12.1-amd64 installed")
    for dkms in (FINE.dkms, FINE.dkms.replace("/", ", ")):
        findings = examine(replace(FINE, dkms=dkms))
        assert [one for one in findings if one.subject == "dkms"] == [good]


DIRECT = (
    "tun_net_xmit [tun] (1) R   D   M \ttramp: ftrace_regs_caller+0x0/0x61 "
    "(call_direct_funcs+0x0/0x20)\n"
    "\tdirect-->sluice_entry+0x0/0xb0 [sluice]\n"
    "ftrace_pin_target [sluice] (1)           \ttramp: 0xffffffffc0457000 "
    "(transmit_entered+0x0/0xb0 [sluice]) ->transmit_entered+0x0/0xb0 [sluice]\n"
)


@pytest.fixture
def patient(machine: Machine, monkeypatch) -> Machine:
    """The recorded machine, for the whole command."""
    monkeypatch.setattr(doctor, "SAMPLE_SECONDS", 0.0)
    yes = ("has_headers", "has_module_file", "has_tun", "has_modules", "has_tool",
           "loads_at_boot", "has_udev")
    no = ("read_modules_disabled", "read_secure_boot", "is_ostree")
    empty = ("read_container", "read_signed_only", "read_file_info")
    answers = {
        **dict.fromkeys(yes, True),
        **dict.fromkeys(no, False),
        **dict.fromkeys(empty, ""),
        "read_kernel_config": CONFIG,
        "load_at_boot_command": "systemctl enable sluice",
        "read_dkms": None,
        "read_signing_key": ("", None),
        "read_enabled_functions": HOOKED,
        "read_distribution": ("debian",),
        "read_os_release": {"ID": "debian"},
        "read_init": system.SYSTEMD,
        "read_parameters": {"stall_ms": "250"},
        "read_kernel_lines": ["[1.0] sluice: hello"],
    }
    for name, answer in answers.items():
        monkeypatch.setattr(system, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(modprobe, "read_configured", lambda: ())
    monkeypatch.setattr(packages, "modules_are_gone", lambda _: False)
    return machine


def test_command(patient: Machine, run) -> None:
    lines = run("doctor", 1).out.splitlines()
    assert lines[-1] == "1 problem found"  # tun0 has noqueue
    assert "      sluice on tun0 --qdisc fq_codel" in lines
    assert max(len(line) for line in lines) < 80
    answer = json.loads(run("doctor --json", 1).out)
    assert answer["verdict"] == "1 problem found"
    assert {one["level"] for one in answer["findings"]} >= {"good", "bad"}
    assert json.loads(run("doctor --json --report", 1).out)["facts"]["parameters"]


def test_report_has_everything(patient: Machine, run) -> None:
    patient.namespaces["red"] = 2
    said = run("doctor --report", 1).out
    for text in ("== parameters\nstall_ms=250", "== rules\nnone", "sluice: hello",
                 "tap0 (tap): on, served", "longest_stop_ns=12300000", "netns    red",
                 HOOKED.strip(), "problem found"):
        assert text in said, text


def test_only_the_namespace_that_is_named(patient: Machine, run) -> None:
    patient.namespaces["red"] = 2
    for words in ([], ["--netns", "red"]):
        answer = json.loads(run(["doctor", "--json", *words], 1).out)
        assert answer["verdict"] == "1 problem found"
    (bad,) = [one for one in answer["findings"] if one["level"] == "bad"]
    assert bad["subject"] == "tun0@red"
    patient.links, patient.devices, patient.queues = [], [], []
    for words, where in ((["--netns", "red"], "network namespace red"),
                         (["--netns", ""], "this network namespace"),
                         ([], "any network namespace")):
        assert f"no tun or tap device in {where}" in run(["doctor", *words]).out
    assert run("doctor --netns blue", 1).err.startswith("sluice: netns blue: ")


@pytest.mark.parametrize(
    "name",
    ["read_module", "read_links", "read_dkms", "read_signing_key", "read_text",
     "read_kernel_config", "read_enabled_functions", "read_distribution", "read_rules",
     "read_module_version", "read_owners", "read_qdiscs"],
)
def test_whatever_fails_does_not_end_the_doctor(
    patient, capsys, monkeypatch, name: str
) -> None:
    error = OSError(5, "Input/output error", "/x")
    monkeypatch.setattr(system, name, raising(error))
    assert main(["doctor"]) in (0, 1)
    said = capsys.readouterr()
    assert "WARN  doctor: could not be read: " in said.out and not said.err
    assert "found" in said.out.splitlines()[-1]


@pytest.mark.parametrize(("before", "now", "told"), [
    ((5, 3), (7, 3), "2 dropped in"),
    ((5, 3), (5, 4), "0 dropped, 1 marked in"),
    ((5, 3), (2, 4), "0 dropped, 1 marked in"),  # the qdisc was replaced
    ((5, 3), (6, 3), "1 dropped in"),
    ((5, 3), (5, 3), ""),
    ((5, None), (5, None), ""),
])
def test_what_the_qdisc_did_is_counted_from_the_first_look(before, now, told) -> None:
    old, view = (
        replace(TAP0, qdisc_stats=QdiscStats(drops=drops, marks=marks))
        for drops, marks in (before, now)
    )
    texts = [one.text for one in doctor.check_drops(view, old, "in the last 1 s")]
    assert len(texts) == bool(told) and all(told in text for text in texts)
    limits = "the qdisc (fq_codel) limits the queue as it should: "
    assert all(text.startswith(limits) for text in texts)


def test_queue_whose_reader_is_dead_is_named_among_several() -> None:
    dead = replace(QUEUE0, id=1, state="stalled")
    (finding,) = doctor.check_reader(replace(TAP0, queues=(QUEUE0, dead)), TAP0, 1)
    assert finding.text == "stalled: too few packets are read from queue 1"


def test_slow_reader_is_named_while_its_queue_is_stopped_again() -> None:
    old = replace(TAP0, queues=(replace(QUEUE0, state="stalled", stalls=3),))
    for state, level in (("stopped", BAD), ("open", NOTE)):
        queue = replace(QUEUE0, state=state, stalls=3)
        now = replace(TAP0, queues=(queue,), tx_packets=TAP0.tx_packets + 10)
        (finding,) = doctor.check_reader(now, old, 1)
        assert finding.level == level
        slow = finding.text.startswith("the reader is slow: 10 packets/s, 3 stalls; ")
        assert slow == (level == BAD), finding


@pytest.mark.parametrize(("packets", "text", "fix"), [
    (0, "stalled: the reader read nothing in the last 2 s", "sluice status tap0"),
    (40, "the reader is slow: 20 packets/s, 1 stall; with this limit a blocking "
     "sender may wait 5 s",
     "sluice on tap0 --stall-ms 5000"),
    (2, "the reader is slow: 1 packets/s, 1 stall; with this limit a blocking "
     "sender may wait 60 s",
     "sluice on tap0 --stall-ms 60000"),
    (399, "the reader is slow: 200 packets/s, 1 stall; with this limit a blocking "
     "sender may wait 0.6 s",
     "sluice on tap0 --stall-ms 600"),
    (400, "stalled: the reader pauses for 250 ms or more", "sluice status tap0"),
])
def test_pace_of_a_stalled_reader_is_counted(packets: int, text: str, fix: str) -> None:
    queue = replace(QUEUE0, state="stalled", stalls=1)
    view = replace(TAP0, tx_packets=TAP0.tx_packets + packets, queues=(queue,))
    (finding,) = doctor.check_reader(view, TAP0, 2)
    assert (finding.level, finding.text, finding.fix) == (BAD, text, fix)


@pytest.mark.parametrize(
    ("ring", "said"), [(64, False), (63, True), (5000, False), (5001, True)]
)
def test_rings_that_are_short_or_long(ring: int, said: bool) -> None:
    texts = [one.text for one in doctor.check_setup(replace(TAP0, ring=ring))]
    assert any(str(ring) in text for text in texts) == said


@pytest.mark.parametrize(("subject", "facts"), doctor.RESTS_ON.items())
def test_nothing_is_fine_that_could_not_be_read(subject: str, facts) -> None:
    before = [one for one in examine(replace(FINE, views=())) if one.subject == subject]
    assert [one.level for one in before] == [GOOD]
    for name in facts:
        findings = examine(replace(FINE, views=(), failed=(f"{name} (odd)",)))
        assert not [one for one in findings if one.subject == subject]
        assert verdict(findings) == (0, "no problem found in what could be read")


@pytest.mark.parametrize(("features", "traced", "how", "notes"), [
    ("", DIRECT, "direct call: closed to BPF fentry programs", []),
    ("direct_ip ops_func", DIRECT.replace("(1) R   D", "(2) R I D"),
     "direct call: closed to BPF fentry programs",
     [f"1 other user of {TUN}: each packet costs more",
      f"{TUN} is live-patched: the patch may bypass sluice"]),
    # An old kernel marks its direct call as a live patch.
    ("direct_ip", DIRECT.replace("(1) R   D", "(1) R I D"),
     "direct call: closed to live patches and BPF fentry programs", []),
])
def test_a_direct_call_is_ours(features: str, traced: str, how: str, notes) -> None:
    facts = replace(FINE, file_features=features, traced=traced)
    findings = [*doctor.check_tracing(facts)]
    assert findings[0].text == f"{TUN} is hooked, by a {how}"
    assert [one.text for one in findings if one.level == NOTE] == notes


@pytest.mark.parametrize("state", ["off", "down", "unread", "upstream", "refused"])
def test_function_need_not_be_hooked_if_nothing_is_served(state: str) -> None:
    facts = replace(FINE, traced="", views=(replace(TAP0, state=state),))
    assert [*doctor.check_tracing(facts)] == []


def test_one_finding_for_all_devices_of_which_the_same_is_found() -> None:
    taps = [replace(TAP0, name=f"tap{n}", ifindex=n, ring=9) for n in range(5)]
    findings = examine(replace(FINE, before=(), views=tuple(taps)))
    assert verdict(findings) == (1, "1 problem found")
    lines = [str(line) for line in doctor.format_findings(findings)]
    (first,) = [n for n, line in enumerate(lines) if line.startswith("FAIL")]
    assert lines[first].startswith("FAIL  tap0, tap1, tap2 and 2 more: a ring of 9")
    assert "for tap0:" in " ".join(lines[first : first + 3])
    assert any("ip link set dev tap0" in line for line in lines)
