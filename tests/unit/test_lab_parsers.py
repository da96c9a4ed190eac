# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab reads from tools: no failure is taken for a success, silence for none."""

from __future__ import annotations

import tomllib

import pytest

from lab.checks.programs import FINE, FOUND, Fault, parse_verdict
from lab.checks.verify import LITMUS, parse_observation, parse_search
from lab.failure import LabError
from lab.guest import devices, latency
from lab.guest.debug import parse_is_watching
from lab.machines.build import parse_warnings
from lab.machines.kernels import refused_options
from lab.trouble import parse_trouble
from lab.workloads import pktgen, tcp

# Kernels

RACE = """BUG: KCSAN: data-race in pktgen_thread_worker / sluice_queue_look [{}]

{} to 0xffff888001234568 of 8 bytes by task 93 on cpu 1:
 sluice_queue_look+0x1e8/0x4f0 [{}]
 transmit_entered+0x52/0x70 [{}]
"""


@pytest.mark.parametrize("line", [
    "[ 2.0] WARNING: CPU: 1 PID: 2 at net/core",
    "BUG: sleeping function called from invalid context",
    "ODEBUG: free active (active state 0) object: 0 object type: timer_list",
    "unreferenced object 0xffff888100000000 (size 64):",
    "lab: lockdep has stopped watching",
    "Kernel panic - not syncing: Fatal exception in interrupt",
])
def test_trouble_is_found_in_a_console(line) -> None:
    assert parse_trouble(f"[ 1.0] fine\n{line}\nmtrr: CPUs had inconsistent MTRRs") == [
        line
    ]


@pytest.mark.parametrize(
    ("module", "access", "number"),
    [("sluice", "read", 1), ("sluice", "write", 1), ("sluice", "read-write", 1),
     ("sluice", "read-write (marked)", 0), ("tun", "write", 0)],
)
def test_race_of_our_plain_access_is_trouble(module, access, number) -> None:
    text = RACE.format(module, access, module, module)
    assert len(parse_trouble(text)) == number


def test_lockdep_says_whether_it_is_watching() -> None:
    text = " lock-classes:     1 [max: 8192]\n debug_locks:      {}\n"
    watching = [parse_is_watching(one) for one in (text.format(1), text.format(0), "")]
    assert watching == [True, False, False]


def test_compilers_complaints_of_own_files() -> None:
    ours = ["hook.c:12:3: warning: unused", "/mnt/hook.c:12:3: error: no",
            "entry_x86.o: warning: objtool: f+0x4: call without frame pointer",
            "ld: warning: /mnt/entry_x86.o: missing .note.GNU-stack section implies"]
    others = ["/usr/include/a.h:1: warning: theirs", "make[2]: warning: Clock skew", "ok"]
    assert parse_warnings("\n".join([*ours, *others])) == ours


def test_kernel_without_an_option_that_was_asked_for_is_refused() -> None:
    wanted = {name: f"{name}=y" for name in ("CONFIG_TUN", "CONFIG_PREEMPT")}
    wanted["CONFIG_SMP"] = "# CONFIG_SMP is not set"
    given = "CONFIG_TUN=m\nCONFIG_PREEMPT=y\n"
    assert refused_options(wanted, given) == ["CONFIG_TUN=y"]
    assert refused_options(wanted, given + "CONFIG_SMP=y\n") == [
        "CONFIG_TUN=y", "# CONFIG_SMP is not set",
    ]


# Proofs

SEARCHED = "State-vector 64 byte, errors: 0\n  1228 states, stored\n"
WORLD = "fine: 2 seeds, 10 packets, 4 of them strict, 2 stops, 0 stalls\n"


@pytest.mark.parametrize(("log", "says"), [
    (SEARCHED, FINE),
    (SEARCHED.replace("errors: 0", "errors: 1"), FOUND),
    ("error: max search depth too small\n" + SEARCHED, "incomplete"),
    ("pan: out of memory\n" + SEARCHED, "incomplete"),
    ("gcc: error", "no verdict"),
    ("", "no verdict"),
])
def test_search(log, says) -> None:
    assert parse_search(log)[0] == says


@pytest.mark.parametrize(("log", "status", "says"), [
    (WORLD, 0, FINE),
    (WORLD, 1, "no verdict"),
    (WORLD.replace("2 seeds", "0 seeds"), 0, "no verdict"),
    ("seed 0, step 12: queue 0: a packet is lost\n", 1, FOUND),
    ("seed 0: ended by signal 11\n", 1, FOUND),
    ("SUMMARY: ThreadSanitizer: data race kmod/queue.c:1 in f\n" + WORLD, 0, FOUND),
    ("SUMMARY: AddressSanitizer: heap-use-after-free\n", 1, FOUND),
    ("Segmentation fault\n", 139, "no verdict"),
    ("", 0, "no verdict"),
    ("100 packets/s  median 39 ms\n", 0, "no verdict"),
    ("100 packets/s  median 39 ms: TOO MUCH\n", 1, FOUND),
    ("found: line 12: a + b is 1, not 2\n", 1, FOUND),
    ("self-test: size of a ptr_ring is not what sluice knows\n", 1, FOUND),
])
def test_programs_verdict(log, status, says) -> None:
    assert parse_verdict(log, status)[0] == says


def test_observation_is_of_the_litmus_test_itself() -> None:
    log = "Observation a+b Sometimes 1 2\n"
    said = [parse_observation(text, name) for text, name in ((log, "a+b"), (log, "a"))]
    assert said == ["Sometimes", "no verdict"]
    assert parse_observation("", "a") == "no verdict"


def test_fault_that_cannot_be_put_into_the_source_is_said() -> None:
    fault = Fault("steps", "x", "kmod/queue.c", {"two": "three"})
    assert fault.put_into("one two") == "one three"
    with pytest.raises(LabError, match="x: kmod/queue.c does not match 'two'"):
        fault.put_into("one")


def test_every_litmus_test_has_a_twin_without_a_guard() -> None:
    names = {path.stem for path in LITMUS.glob("*.litmus")}
    twins = {name.partition("+")[0] for name in names if "+" in name}
    twins |= set(tomllib.loads((LITMUS / "twins.toml").read_text()))
    assert twins == {name for name in names if "+" not in name} != set()


# Counters and rates

PING = """\
[1760000000.100000] 64 bytes from 10.91.0.2: icmp_seq=1 ttl=64 time=1.00 ms
[1760000000.160000] 64 bytes from 10.91.0.2: icmp_seq=3 ttl=64 time=46.4 ms

--- 10.91.0.2 ping statistics ---
5 packets transmitted, 2 received, 60% packet loss, time 150ms
"""
PKTGEN = """\
     pkts-sofar: 1093691  errors: 14627
Result: OK: 2119976(c2119966+d9) usec, 1093691 (60byte,0frags)
  515897pps 247Mb/sec (247630560bps) errors: 14627
"""
QDISCS = """\
qdisc netem 9: parent 8001:1 limit 1000
 Sent 9 bytes 99 pkt (dropped 9, overlimits 9 requeues 9)
 backlog 9b 9p requeues 9
qdisc fq_codel 8001: root refcnt 2 limit 10240p flows 1024
  of which options may fill lines
 Sent 4700 bytes 7 pkt (dropped 3, overlimits 0 requeues 2)
 backlog 1400b 1p requeues 2
"""
LINK = '[{"stats64": {"rx": {"packets": 1}, "tx": {"packets": 5, "dropped": 4}}}]'


def test_counts_are_those_that_the_tools_print() -> None:
    assert latency.parse_ping(PING) == latency.Latency(5, 2, (1.0, 46.4), settled=3)
    sent = pktgen.parse_pktgen(PKTGEN)
    assert sent.attempts == 1093691 + 14627
    counters = devices.parse_counters(LINK, QDISCS)
    assert (counters.read, counters.lost_at_ring, counters.passed_by_qdisc) == (5, 4, 7)
    assert (counters.qdisc_drops, counters.held, counters.offered) == (3, 1, 11)
    assert counters + counters - counters == counters
    bare = devices.parse_counters(LINK, "qdisc noqueue 0: root refcnt 2\n")
    assert bare == devices.Counters(5, 4, 0, 0, 0, 0)


@pytest.mark.parametrize(("parse", "text", "reason"), [
    (tcp.parse_iperf3, "", "no JSON"),
    (tcp.parse_iperf3, '{"error": "unable to connect"}', "unable to connect"),
    (tcp.parse_iperf3, '{"end": {"sum_received": {"bytes": 0}}}', "no byte"),
    (latency.parse_ping, PING.partition("\n---")[0], "no summary"),
    (pktgen.parse_pktgen, "Result: Idle\n", "did not run"),
    (pktgen.parse_pktgen, "Result: OK: 1(c1+d0) usec, 1 (", "did not run"),
    (lambda text: devices.parse_reader_line(text, "ended"), "", "reader"),
    (lambda text: devices.parse_reader_line(text, "ended"),
     '{"state": "paused", "devices": []}', "instead of 'ended'"),
])
def test_tool_that_measured_nothing_is_refused(parse, text, reason) -> None:
    with pytest.raises(Exception, match=reason):
        parse(text)
