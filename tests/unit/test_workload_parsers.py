# SPDX-License-Identifier: GPL-2.0-or-later
"""What the workloads read from tools is understood, or refused aloud."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from dataclasses import replace

import pytest

from lab.guest import devices, latency, tasks
from lab.guest import program as programs
from lab.guest.env import GuestEnv
from lab.guest.path import delay_arguments, link_arguments
from lab.guest.program import parse_udp_overflows
from lab.processes import parse_stat
from lab.row import VARIANTS, Sample, Skipped, WorkloadError
from lab.workloads import all_workloads, applications, file, rows_of
from lab.workloads import dead_reader, pktgen, tcp
from lab.workloads.never_full import busy_time_told
from lab.workloads.qemu import listens

PING = """\
PING 10.91.0.2 (10.91.0.2) 56(84) bytes of data.
[1760000000.100000] 64 bytes from 10.91.0.2: icmp_seq=1 ttl=64 time=1.00 ms
[1760000000.130000] 64 bytes from 10.91.0.2: icmp_seq=2 ttl=64 time=0.250 ms
[1760000000.160000] 64 bytes from 10.91.0.2: icmp_seq=3 ttl=64 time=46.4 ms
[1760000000.190000] 64 bytes from 10.91.0.2: icmp_seq=4 ttl=64 time=2 ms

--- 10.91.0.2 ping statistics ---
5 packets transmitted, 4 received, 20% packet loss, time 150ms
rtt min/avg/max/mdev = 0.250/12.412/46.400/19.635 ms
"""

PKTGEN = """\
Params: count 0  min_pkt_size: 60  max_pkt_size: 60
     frags: 0  delay: 0  clone_skb: 0  ifname: here0@0
Current:
     pkts-sofar: 1093691  errors: 14627
     started: 1118417us  stopped: 3238394us idle: 9us
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
  maxpacket 0 drop_overlimit 0
"""


def sample(**counts: int) -> Sample:
    whole = dict(value=1.0, sent=10, read=10, qdisc_drops=0, lost_at_ring=0)
    return Sample(**{**whole, **counts})


def test_ping_gives_percentiles_and_losses() -> None:
    got = latency.parse_ping(PING)
    assert (got.sent, got.received) == (5, 4)
    percents = [latency.percentile(got.times_ms, percent) for percent in (50, 99)]
    assert percents == [1.0, 46.4]


def test_ping_without_answers_has_no_percentiles() -> None:
    got = latency.parse_ping("9 packets transmitted, 0 received, 100% packet loss")
    assert got == latency.Latency(9, 0)
    assert latency.percentile(got.times_ms, 50) is None


def test_ping_without_summary_is_refused() -> None:
    with pytest.raises(WorkloadError, match="no summary"):
        latency.parse_ping(PING.split("\n---")[0])


TALKATIVE = """\
#!{python} -S
import pathlib, signal, sys, time
def end(*_):
    print("5000 packets transmitted, 5000 received, 0% packet loss")
    sys.exit()
signal.signal(signal.SIGINT, end)
for number in range(5000):
    print(f"64 bytes from 10.91.0.2: icmp_seq={{number}} ttl=64 time=1.00 ms", flush=True)
pathlib.Path("{done}").touch()
time.sleep(60)
"""


def test_ping_that_says_much_is_never_held_up(tmp_path, monkeypatch) -> None:
    done, script = tmp_path / "done", tmp_path / "ping"
    script.write_text(TALKATIVE.format(python=sys.executable, done=done))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with latency.ping(devices.HERE, devices.THERE) as ping:
        devices.wait_until(done.exists, "the last of 5000 answers", 20)
        told = ping.end()
    assert (told.sent, len(told.times_ms)) == (5000, 5000)
    assert latency.percentile(told.times_ms, 99) == 1.0


@pytest.mark.parametrize(
    "percent, expected", [(50, 50), (95, 95), (99, 99), (100, 100), (0, 1)]
)
def test_percentile_is_nearest_rank(percent: float, expected: float) -> None:
    assert latency.percentile(range(100, 0, -1), percent) == expected


def test_pktgen_result_counts_what_was_refused() -> None:
    got = pktgen.parse_pktgen(PKTGEN)
    assert got == pktgen.Sent(2.119976, 2.119966, 1093691, 14627)
    assert got.attempts == 1108318


class SlowPktgen:
    """/proc/net/pktgen and a clock: a packet every 9 s, none after the last."""

    def __init__(self, folder, last: int, ends: bool) -> None:
        self.folder, self.last, self.ends, self.now = folder, last, ends, 0
        self.sleep(0)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _: float) -> None:
        self.now += 1
        over = self.ends and self.now > 9 * self.last
        sent = f"pkts-sofar: {min(self.now // 9, self.last)}\n"
        (self.folder / "here0@0").write_text(PKTGEN if over else sent)


@pytest.mark.parametrize("ends", [True, False])
def test_slow_pktgen_is_waited_for_and_a_stuck_one_given_up(
    monkeypatch, tmp_path, ends
) -> None:
    slow = SlowPktgen(tmp_path, last=20, ends=ends)
    monkeypatch.setattr(pktgen, "time", slow)
    monkeypatch.setattr(pktgen, "PROC", tmp_path)
    if ends:
        assert pktgen.wait_ended(["here0@0"]) == [pktgen.parse_pktgen(PKTGEN)]
        return
    with pytest.raises(WorkloadError, match=r"stays at \[20\] packets for 10 s"):
        pktgen.wait_ended(["here0@0"])


@pytest.mark.parametrize("text", ["Result: Idle\n", "Result: OK: 1(c1+d0) usec, 1 ("])
def test_pktgen_without_result_is_refused(text: str) -> None:
    with pytest.raises(WorkloadError, match="did not run"):
        pktgen.parse_pktgen(text)


@pytest.mark.parametrize("release", ["5.10.0-32-amd64", "6.12.117+deb13-amd64"])
def test_pktgen_that_takes_its_waits_off_twice_is_not_asked(release: str) -> None:
    with pytest.raises(Skipped, match="does not tell its busy time"):
        busy_time_told(release, 1)
    busy_time_told("7.3.4+deb13-amd64", 1)


@pytest.mark.parametrize("begun", (True, False))
def test_pktgen_that_has_ended_has_begun(monkeypatch, tmp_path, begun: bool) -> None:
    """The first of two senders has ended before the second begins, or does not."""
    first, second = tmp_path / "here0@0", tmp_path / "here0@1"
    for path in (first, second):
        path.write_text("Result: OK: udp_src_max=9\n")

    def write(_name: str, _line: str) -> None:
        first.write_text(PKTGEN)
        if begun:
            second.write_text("Result: Starting\n")

    monkeypatch.setattr(pktgen, "PROC", tmp_path)
    monkeypatch.setattr(pktgen, "write_control", write)
    monkeypatch.setattr(pktgen, "START_SECONDS", 60 if begun else 0.2)
    with contextlib.nullcontext() if begun else pytest.raises(WorkloadError):
        pktgen.start([first.name, second.name])


LINK = '[{"stats64": {"rx": {"packets": 1}, "tx": {"packets": 5, "dropped": 4}}}]'


def test_counts_come_from_the_link_and_its_root_qdisc() -> None:
    got = devices.parse_counters(LINK, QDISCS)
    assert (got.read, got.lost_at_ring) == (5, 4)
    assert (got.passed_by_qdisc, got.qdisc_drops) == (7, 3)
    assert (got.requeues, got.held) == (2, 1)


@pytest.mark.parametrize("root", ["", "qdisc noqueue 0: root refcnt 2\n"])
def test_no_qdisc_counts_nothing(root: str) -> None:
    text = root + QDISCS.partition("qdisc fq_codel")[0]
    assert devices.parse_counters(LINK, text) == devices.Counters(5, 4, 0, 0, 0, 0)


def test_counters_add_and_subtract() -> None:
    one = devices.Counters(1, 2, 3, 4, 5, 6)
    assert one + one - one == one
    assert one.offered == 3 + 4 + 6


def test_reader_line_must_be_in_the_expected_state() -> None:
    text = '{"state": "paused", "devices": [{"name": "here0", "read": 23}]}'
    assert devices.parse_reader_line(text, "paused")[0]["read"] == 23
    with pytest.raises(WorkloadError, match="instead of 'ended'"):
        devices.parse_reader_line(text, "ended")
    with pytest.raises(WorkloadError, match="reader"):
        devices.parse_reader_line("", "ended")


def test_iperf3_gives_the_receivers_rate() -> None:
    end = {
        "sum_sent": {"bits_per_second": 9e9, "retransmits": 64},
        "sum_received": {"bits_per_second": 149.4e6, "bytes": 37360000},
        "streams": [{"receiver": {"bytes": 3}}, {"receiver": {"bytes": 1}}],
    }
    got = tcp.parse_iperf3(json.dumps({"end": end}))
    assert got == tcp.Received(mbit=149.4, retransmits=64, jain=0.8)


def test_old_iperf3_tells_of_udp_what_was_missed() -> None:
    told = {"bits_per_second": 80e6, "bytes": 4000, "packets": 8, "lost_packets": 2}
    end = {"sum": told, "streams": [{"udp": {"bytes": 4000}}]}
    got = tcp.parse_iperf3(json.dumps({"end": end}))
    assert got == tcp.Received(mbit=60, retransmits=0, jain=1)


def test_jains_index_is_1_when_all_get_the_same() -> None:
    assert tcp.jain([5, 5, 5]) == 1
    assert tcp.jain([8, 0, 0, 0]) == 0.25
    assert tcp.jain([0, 0]) == 0


def test_ecn_marks_of_all_disciplines_are_summed() -> None:
    text = '[{"kind": "mq"}, {"kind": "fq_codel", "ecn_mark": 7}]'
    assert devices.parse_ecn_marks(text) == 7
    assert devices.parse_ecn_marks("") == 0


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "no JSON"),
        ('{"error": "unable to connect"}', "unable to connect"),
        ('{"end": {"sum_received": {"bytes": 0}}}', "no byte"),
    ],
)
def test_iperf3_without_a_transfer_is_refused(text: str, reason: str) -> None:
    with pytest.raises(WorkloadError, match=reason):
        tcp.parse_iperf3(text)


SENDER = """\
#!{python} -S
import socket, sys
out = socket.socket(fileno=0)
for address in sys.argv[4:]:
    out.sendto(b"x", (address, {port}))
print('{{"ns": 7, "refused": 0, "hung": true, "sent": [1, 2]}}')
"""


@pytest.fixture
def fake_sender(tmp_path, monkeypatch) -> GuestEnv:
    """It sends one packet to each address; the living peer needs no privilege."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        living = free.getsockname()
    script = tmp_path / "bin" / "sender"
    script.parent.mkdir()
    script.write_text(SENDER.format(python=sys.executable, port=living[1]))
    script.chmod(0o755)
    monkeypatch.setattr(dead_reader, "LIVING", living)
    monkeypatch.setattr(dead_reader, "SO_RCVBUFFORCE", socket.SO_RCVBUF)
    env = GuestEnv()
    env.folder = tmp_path
    return env


def test_living_peer_receives_what_is_sent_to_it(fake_sender) -> None:
    cpus = os.sched_getaffinity(0)
    counts = dead_reader.send_in_turn(fake_sender, "127.0.0.2")
    assert (counts["other"], counts["living"], counts["received"]) == (1, 2, 1)
    assert counts["hung"] is True
    assert os.sched_getaffinity(0) == cpus


def test_sender_that_fails_is_told(fake_sender) -> None:
    with pytest.raises(WorkloadError, match="sender: status 1"):
        dead_reader.send_in_turn(fake_sender, "nowhere.invalid")


def test_sample_accounts_for_every_packet() -> None:
    whole = sample(read=4, qdisc_drops=3, lost_at_ring=2, held=1)
    assert whole.unaccounted == 0
    assert whole.to_json()["unaccounted"] == 0
    assert sample(read=4, qdisc_drops=0, lost_at_ring=0).unaccounted == 6


def test_rows_are_unique() -> None:
    everywhere = list(all_workloads())
    assert len(everywhere) == len(set(everywhere))
    names = [row.name for row in rows_of("bench")]
    assert len(names) == 40
    assert VARIANTS == ("stock", "upstream", "sluice")


def test_application_row_is_named_by_its_case() -> None:
    titles = {row.name: row.title for row in rows_of("apps")}
    assert titles["tinc_file_20ms_10mbit"] == "tinc 10 MB by TCP, 20 ms 10 Mbit/s"
    assert titles["tinc_file_20ms"] == "tinc 50 MB by TCP, 20 ms"
    assert titles["openvpn_tcp_1_120ms_10mbit_ring25"].endswith(", ring of 25")


def test_file_is_there_when_its_receiver_says_so() -> None:
    loopback = devices.Device("lo", "127.0.0.1", mac="")
    mbit, told = file.move(loopback, loopback, 1_000_000)
    assert 0 < told["seconds_until_all"] < file.STUCK_SECONDS
    assert mbit == pytest.approx(8 / told["seconds_until_all"])
    assert told["retransmits"] >= 0
    nowhere = replace(loopback, address="127.0.0.256")
    with pytest.raises(WorkloadError):
        file.move(nowhere, nowhere, 1)


def test_usual_rows_of_the_applications_exist() -> None:
    names = [row.name for row in rows_of("apps")]
    assert len(names) == len(set(names))
    assert set(applications.USUAL) <= set(names)


def test_segments_are_not_held_against_gso_packets() -> None:
    whole = sample(read=4, qdisc_drops=0, lost_at_ring=0)
    assert replace(whole, segmented=True).unaccounted == 0


def test_path_delays_half_each_way_and_a_link_has_a_rate() -> None:
    assert delay_arguments(20)[:3] == ["netem", "delay", "10000us"]
    assert link_arguments(12)[:3] == ["tbf", "rate", "12mbit"]


def test_cpu_time_of_a_process_with_a_strange_name() -> None:
    stat = "7 (a) b) S " + " ".join(str(field) for field in range(4, 30))
    state, *_ = fields = parse_stat(stat)
    assert (state, fields[11:13]) == ("S", ["14", "15"])


def test_guest_that_takes_a_test_does_not_listen() -> None:
    ready, taken = "Server listening on 5201\n", "Accepted connection from 10.94.0.1\n"
    assert not listens("")
    assert listens(ready)
    assert not listens(ready + taken)
    assert listens(ready + taken + ready)


def test_overflows_of_udp_sockets_are_read_by_name() -> None:
    snmp = (
        "Ip: Forwarding\nIp: 1\n"
        "Udp: InDatagrams NoPorts RcvbufErrors\nUdp: 9 0 7\n"
        "UdpLite: InDatagrams\nUdpLite: 0\n"
    )
    assert parse_udp_overflows(snmp) == 7


def test_switches_and_softirq_are_summed_from_proc() -> None:
    status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t5\n"
    assert tasks.parse_switches(status) == 12
    stat = "cpu  1 2 3 4 5 6 700 8\ncpu0 1 2 3 4 5 6 70 8 0 0\ncpu1 1 2 3 4 5 6 30 8\n"
    assert tasks.parse_softirq_seconds(stat) == {0: 0.7, 1: 0.3}


def test_program_that_ended_is_why_its_device_is_gone(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(programs, "FOLDER", tmp_path)
    argv = ["sh", "-c", "echo it broke; exit 3"]
    with pytest.raises(WorkloadError, match="sh: ended, status 3, and said: it broke"):
        with programs.program(devices.HERE, argv):
            raise WorkloadError("tun0: cannot be found")


def test_error_beside_a_program_that_runs_is_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(programs, "FOLDER", tmp_path)
    monkeypatch.setattr(programs, "ENDING_SECONDS", 0.01)
    with pytest.raises(WorkloadError, match="iperf3: no answer"):
        with programs.program(devices.HERE, ["sleep", "60"]):
            raise WorkloadError("iperf3: no answer")
