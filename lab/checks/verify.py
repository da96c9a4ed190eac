# SPDX-License-Identifier: GPL-2.0-or-later
"""The proofs: each one's verdict beside the one it must have.

A proof that must fail, because a guard was removed, is asked like the others: it
shows that the check can fail.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab import processes
from lab.checks import copies, ring, series_pace
from lab.checks.policy import (
    ADDRESSES,
    EXAMPLES,
    FINE,
    FOUND,
    PACE,
    STEPS,
    THREADS,
    Harness,
    Seeded,
    Variant,
    seeded_text,
)
from lab.checks.provers import RING, ensure_kernel_model, ensure_provers
from lab.failure import LabError
from lab.machines.chroot import Root, last_line, run_in_root
from lab.machines.vm import REPOSITORY
from lab.setup import say

PROOFS = REPOSITORY / "proofs"
LITMUS = PROOFS / "litmus"
MODEL = PROOFS / "model" / "queue.pml"


@dataclass(frozen=True)
class Proof:
    name: str
    expected: str
    ask: Callable[[], tuple[str, str]]  # its verdict, and what it adds to that
    short: bool = True  # make test asks it; if not, only make verify


@dataclass(frozen=True)
class Verdict:
    name: str
    expected: str
    said: str
    detail: str
    seconds: float

    @property
    def as_expected(self) -> bool:
        return self.said == self.expected


@dataclass(frozen=True)
class Search:
    """One run of the model."""

    name: str
    defines: str
    expected: str = FINE
    claim: str = ""  # an ltl formula of the model, else its assertions
    short: bool = True


# Half the ring is more than the headroom, a quarter more than the senders
# that may pass a look unseen.
ONE = "-DSENDERS=1 -DSIZE=8"
TWO = "-DSENDERS=2 -DSIZE=16"
SEARCHES = (
    Search("two_senders_lose_nothing", TWO),
    Search("held_to_a_time", f"{TWO} -DDEPTH"),
    Search("no_headroom", f"{TWO} -DBUG_HEADROOM", FOUND),
    Search("look_replaced_unread", f"{TWO} -DBUG_LOOK", FOUND),
    Search("look_stored_not_exchanged", f"{TWO} -DBUG_EXCHANGE", FOUND),
    Search("look_half_a_ring_on", f"{TWO} -DBUG_SPAN", FOUND),
    Search("stopped_is_watched", TWO, claim="watched"),
    Search("not_armed_again", f"{ONE} -DBUG_REARM", FOUND, "watched"),
    Search("senders_go_on", TWO, claim="progress"),
    Search("senders_wait_for_ever", f"{ONE} -DBUG_REARM", FOUND, "progress"),
    Search("reader_dies", f"{ONE} -DDIES"),
    Search("reader_slow", f"{ONE} -DSLOW"),
    Search("reader_slow_senders_go_on", f"{ONE} -DSLOW", claim="progress"),
    Search("operated", f"{ONE} -DOPERATOR=1"),
    Search("operated_senders_go_on", f"{ONE} -DOPERATOR=1", claim="progress"),
    Search("stop_when_closed", f"{ONE} -DOPERATOR=1 -DBUG_OPEN", FOUND),
    Search("foreign_stop_taken", f"{ONE} -DOPERATOR=1 -DBUG_FOREIGN", FOUND),
    Search("no_cancel", f"{ONE} -DOPERATOR=1 -DBUG_CANCEL", FOUND),
    Search("no_lock", f"{ONE} -DOPERATOR=1 -DBUG_LOCK", FOUND, short=False),
    Search("rings_change", f"{ONE} -DOPERATOR=2", short=False),
    Search("operated_reader_dies", f"{ONE} -DOPERATOR=1 -DDIES", short=False),
    Search("batches_of_two", "-DSENDERS=2 -DSIZE=18 -DBATCH=2", short=False),
)

SEEDS_SHORT, SEEDS_LONG = 1500, 50000
THREAD_SEEDS_SHORT, THREAD_SEEDS_LONG = 6, 48
ADDRESS_SECONDS_SHORT = 5  # a seed takes some
# A guard that is taken out is found within so many seeds of steps or of threads.
SEEDS_MOST, THREAD_SEEDS_MOST = 40000, 60
SEEDED = (
    Seeded("no_headroom", "size - headroom_for(q, ring, size)", "size"),
    Seeded("not_armed_again", "__queue_arm(q, excess, now);", ";"),
    Seeded("no_cancel", "hrtimer_cancel(&q->timer);", ";"),
    Seeded(
        "foreign_stop_taken",
        "if (test_and_set_bit(__QUEUE_STATE_DRV_XOFF, &q->txq->state) ||",
        "if ((test_and_set_bit(__QUEUE_STATE_DRV_XOFF, &q->txq->state), 0) ||",
    ),
    Seeded(
        "headroom_without_senders",
        "int all = 2 * num_online_cpus() + batch;",
        "int all = batch;",
    ),
    Seeded(
        "open_not_asked", "if (q->open)\n\t\t__queue_stop", "if (1)\n\t\t__queue_stop"
    ),
    Seeded(
        "own_stop_forgotten", "&q->txq->state) ||\n\t    q->stopped)", "&q->txq->state))"
    ),
    Seeded(
        "stalled_kept",
        "q->unpaid_ns = 0;\n\tWRITE_ONCE(q->stalled, false);",
        "q->unpaid_ns = 0;",
    ),
    Seeded("hook_left", "sluice_hook_remove();", ";", file="device.c"),
    Seeded(
        "device_freed_at_once",
        "kvfree_rcu(device, rcu);",
        "kvfree(device);",
        file="device.c",
    ),
    Seeded(
        "size_before_file",
        "if (unlikely(!file || file != READ_ONCE(*q->slot) ||\n"
        "\t\t     size != READ_ONCE(ring->size)))",
        "u32 was = ring ? READ_ONCE(ring->size) : 0;\n"
        "\tif (!file || file != READ_ONCE(*q->slot) || size != was)",
        file="entry.h",
    ),
    Seeded(
        "ring_not_compared",
        "ring != q->ring || READ_ONCE(ring->size) != q->size ||\n",
        "READ_ONCE(ring->size) != q->size ||\n",
    ),
    Seeded(
        "open_queue_reviewed",
        "if (q->stopped)\n\t\t__queue_review",
        "if (1)\n\t\t__queue_review",
    ),
    Seeded(
        "full_is_empty",
        "return ring->size == size && READ_ONCE(ring->queue[newest]);",
        "return false;",
    ),
    Seeded(
        "backstop_asleep",
        "schedule_delayed_work(&runner, RUN_EVERY);",
        ";",
        file="backstop.c",
    ),
    # What was read of a batch and is not handed back is no packet of the operator's
    # limit: a reader that lives would be taken for dead.
    Seeded(
        "limit_of_slots",
        "count.used - limit + 1);",
        "count.used - depth_for(q, limit) + 1);",
    ),
    # Where the limit is half of a small ring, drops are then not counted.
    Seeded(
        "stalled_looks_no_more", "set_next_check(q, check, producer, 0, size);\n", ";\n"
    ),
    Seeded(
        "stopped_read_outside_lock",
        "\traw_spin_lock_irqsave(&q->lock, flags);\n"
        "\tif (q->stopped)\n\t\t__queue_review",
        "\tbool stopped = q->stopped;\n\traw_spin_lock_irqsave(&q->lock, flags);\n"
        "\tif (stopped)\n\t\t__queue_review",
    ),
    Seeded(
        "check_stored",
        "atomic64_cmpxchg(&q->next_check, check, (checks + 1) << 32 | last);",
        "atomic64_set(&q->next_check, (checks + 1) << 32 | last);",
        short=False,
    ),
    Seeded(
        "producer_before_tail",
        "\tint tail = READ_ONCE(ring->consumer_tail);\n\tstruct ring_count count;\n\n"
        "\tsmp_rmb(); /* proofs/litmus: tail_before_slots, tail_before_producer */\n"
        "\tcount.used = slots_between(tail, READ_ONCE(ring->producer), size);",
        "\tint producer = READ_ONCE(ring->producer);\n"
        "\tint tail = READ_ONCE(ring->consumer_tail);\n\tstruct ring_count count;\n\n"
        "\tsmp_rmb();\n\tcount.used = slots_between(tail, producer, size);",
        short=False,
    ),
    Seeded("file_unmarked", "READ_ONCE(q->file) ||", "q->file ||", threads=True),
    Seeded(
        "file_not_released",
        "smp_store_release(&q->file, file);",
        "q->file = file;",
        threads=True,
    ),
)


# Parts of the controller, whose lack shows in what a ring holds.
SEEDED_PACE = (
    Seeded("never_deeper", "q->depth_ns += min(idle, q->depth_ns / 2);", ";"),
    Seeded("refill_not_seen", "target /= QUICK_REFILL;", ";"),
    Seeded("pace_not_learned", "if (packets)\n\t\tidle", "if (0)\n\t\tidle"),
    Seeded(
        "rest_is_a_pace", "q->reviewed_at = now;", "if (packets) q->reviewed_at = now;"
    ),
    Seeded("whole_ring", "min_t(int, READ_ONCE(q->depth), limit)", "limit"),
    Seeded("crowd_not_seen", " || (over && count.used >= limit)", ""),
    Seeded("stalled_for_ever", "now + PASS_FACTOR * stall_ns(q)", "~0ULL"),
    Seeded("stop_not_bounded", "} else if (over) {", "} else if (0) {"),
    Seeded("slow_is_fast_enough", "q->unpaid_ns += ns;", ";"),
    Seeded(
        "dead_holds_again",
        "return READ_ONCE(ring->consumer_head) == READ_ONCE(q->head) ||",
        "return",
    ),
    Seeded("reviews_not_bounded", "ns = max_t(s64, ns, q->next_review_at - now);", ";"),
    Seeded("no_backoff", "q->idle_reviews++;", ";"),
    Seeded("readers_wait_for_others", "if (!q->idle_reviews)", "if (0)"),
    Seeded(
        "headroom_of_all_cpus", "clamp_t(int, READ_ONCE(q->headroom), least, all)", "all"
    ),
    Seeded("headroom_of_few", "clamp_t(int, READ_ONCE(q->headroom), least, all)", "2"),
    Seeded("no_share", "(atomic_read(&stopped_queues) - 1)", "0"),
)


def parse_expected(litmus: str) -> str:
    """The result that a litmus test states in its head."""
    found = re.search(r"^ \* Result: (\w+)$", litmus, re.MULTILINE)
    if not found:
        raise LabError("litmus: a test without a Result: line; add it")
    return found[1]


def parse_observation(log: str, name: str) -> str:
    found = re.search(rf"^Observation {re.escape(name)} (\w+) ", log, re.MULTILINE)
    return found[1] if found else "no verdict"


def parse_search(log: str) -> tuple[str, str]:
    """The verdict of SPIN's search, and how far it went."""
    states = re.search(r"(\d+) states, stored", log)
    errors = re.search(r"errors: (\d+)", log)
    if not states or not errors:
        return "no verdict", last_line(log)
    detail = f"{int(states[1]):,} states"
    if int(errors[1]):
        why = re.search(r"^pan:1: (.*?) \(at depth", log, re.MULTILINE)
        return FOUND, f"{why[1] if why else 'an error'}; {detail}"
    if "max search depth too small" in log or "out of memory" in log:
        return "incomplete", detail
    return FINE, detail


class Workplace(contextlib.ExitStack):
    """Where the provers run: directories that go when it is left."""

    def __init__(self) -> None:
        super().__init__()
        self.root: Root = ensure_provers()
        self.kernel: Path = ensure_kernel_model()
        top = tempfile.TemporaryDirectory(prefix="sluice-proofs-")
        self._top = Path(self.enter_context(top))

    def folder(self, name: str) -> Path:
        path = self._top / name.replace("/", "-")
        path.mkdir()
        return path

    def run(self, work: Path, script: str) -> tuple[int, str]:
        return run_in_root(self.root, work, script)

    def harness(self, variant: Variant, name: str = "") -> Harness:
        folder = self.folder(name or variant.name)
        return Harness(variant, folder, self.kernel, self.run)


def _ask_litmus(place: Workplace, path: Path) -> tuple[str, str]:
    work = place.folder(f"litmus-{path.stem}")
    for source in (path, *place.kernel.iterdir()):
        shutil.copy(source, work)
    _, log = place.run(work, f"herd7 -conf linux-kernel.cfg '{path.name}'")
    said = parse_observation(log, path.stem)
    return said, last_line(log) if said == "no verdict" else ""


def litmus_proofs(place: Workplace) -> list[Proof]:
    return [
        Proof(f"litmus/{path.stem}", expected, partial(_ask_litmus, place, path))
        for path in sorted(LITMUS.glob("*.litmus"))
        for expected in [parse_expected(path.read_text())]
    ]


def _ask_model(place: Workplace, search: Search) -> tuple[str, str]:
    work = place.folder(f"model-{search.name}")
    shutil.copy(MODEL, work)
    kind = "-DNFAIR=3" if search.claim else "-DSAFETY -DNOCLAIM"
    fair = "-f " if search.claim == "progress" else ""
    options = f"-a {fair}-N {search.claim}" if search.claim else ""
    script = f"spin {search.defines} -a {MODEL.name} && gcc -O2 -w {kind} -o pan pan.c"
    status, log = place.run(work, f"{script} && ./pan -E -w24 -m8000000 {options}")
    return parse_search(log)


def model_proofs(place: Workplace) -> list[Proof]:
    return [
        Proof(f"model/{s.name}", s.expected, partial(_ask_model, place, s), s.short)
        for s in SEARCHES
    ]


def _ask_seeded(harness: Harness, bug: Seeded) -> tuple[str, str]:
    if not harness.mutant(bug.name, {bug.file: seeded_text(bug)}):
        return "no verdict", "does not build"
    if harness.variant is PACE:
        return harness.pace(bug.name)
    most = SEEDS_MOST if harness.variant is STEPS else THREAD_SEEDS_MOST
    return harness.world(0, most, name=bug.name)


def policy_proofs(place: Workplace, short: bool) -> list[Proof]:
    steps, threads, addresses, pace, examples = (
        place.harness(variant)
        for variant in (STEPS, THREADS, ADDRESSES, PACE, EXAMPLES)
    )
    seeds = SEEDS_SHORT if short else SEEDS_LONG
    few = THREAD_SEEDS_SHORT if short else THREAD_SEEDS_LONG
    most = ADDRESS_SECONDS_SHORT if short else 0
    freed_at_once = next(one for one in SEEDED if one.name == "device_freed_at_once")
    proofs = [
        Proof("policy/steps", FINE, partial(steps.world, 0, seeds)),
        Proof("policy/threads", FINE, partial(threads.world, 0, few)),
        Proof("policy/addresses", FINE, partial(addresses.world, 0, few, most)),
        Proof(
            *("policy/addresses_freed_at_once", FOUND),
            partial(_ask_seeded, addresses, freed_at_once),
        ),
        Proof("policy/pace", FINE, pace.pace),
        Proof("policy/examples", FINE, examples.examples),
    ]
    bugs = [(threads if bug.threads else steps, bug) for bug in SEEDED]
    bugs += [(pace, bug) for bug in SEEDED_PACE]
    return proofs + [
        Proof(f"policy/{one.name}", FOUND, partial(_ask_seeded, harness, one), one.short)
        for harness, one in bugs
    ]


def ring_proofs(place: Workplace) -> list[Proof]:
    text = (place.kernel / RING).read_text()

    def asked(name: str, meaning: ring.Meaning | None = None) -> tuple[str, str]:
        return ring.ask(place.folder(f"ring-{name}"), place.run, text, meaning)

    return [Proof("ring/as_it_is", FINE, partial(asked, "as_it_is"))] + [
        Proof(f"ring/{one.name}", FOUND, partial(asked, one.name, one))
        for one in ring.MEANINGS
    ]


def _ask_copies() -> tuple[str, str]:
    """Whether litmus tests and the model still repeat the source."""
    changed = copies.check_copies()
    return (FOUND, "; ".join(changed)) if changed else (FINE, "")


def ask(proof: Proof) -> Verdict:
    started = time.monotonic()
    said, detail = proof.ask()
    seconds = time.monotonic() - started
    return Verdict(proof.name, proof.expected, said, detail, seconds)


def format_verdict(verdict: Verdict) -> str:
    line = f"{verdict.name:44} {verdict.said:10}"
    if not verdict.as_expected:
        line += f" NOT {verdict.expected}"
    line += f" {verdict.seconds:5.1f} s  {verdict.detail}"
    return line.rstrip()


def format_summary(verdicts: list[Verdict], planned: int) -> str:
    wrong = [one.name for one in verdicts if not one.as_expected]
    if wrong or not verdicts or len(verdicts) != planned:
        return (
            f"verify: {len(wrong)} of {planned} proofs not as expected, "
            f"{planned - len(verdicts)} not asked: {', '.join(wrong)}"
        )
    return f"verify: {planned} proofs, each as expected"


def series_proofs(place: Workplace) -> list[Proof]:
    """The patch series' policy, whole and with guards removed."""

    def asked(name: str, bug: Seeded | None = None) -> tuple[str, str]:
        return series_pace.ask_pace(place.run, place.folder(f"series-{name}"), bug)

    return [Proof("series/pace", FINE, partial(asked, "pace"))] + [
        Proof(f"series/{bug.name}", FOUND, partial(asked, bug.name, bug))
        for bug in series_pace.SEEDED
    ]


def verify(short: bool) -> int:
    """Ask every proof, print each verdict; 0 if all are as expected."""
    with Workplace() as place:
        proofs = [Proof("copies", FINE, _ask_copies), *litmus_proofs(place)]
        proofs += model_proofs(place) + policy_proofs(place, short)
        proofs += ring_proofs(place) + series_proofs(place)
        proofs = [proof for proof in proofs if proof.short or not short]
        say(f"verify: {len(proofs)} proofs")
        verdicts = []
        with processes.workers(os.cpu_count()) as pool:
            for verdict in pool.map(ask, proofs):
                verdicts.append(verdict)
                print(format_verdict(verdict), flush=True)
    print(format_summary(verdicts, len(proofs)))
    fine = len(verdicts) == len(proofs) and all(v.as_expected for v in verdicts)
    return 0 if fine and verdicts else 1
