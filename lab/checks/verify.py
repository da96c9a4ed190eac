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
    POLICY,
    STEPS,
    THREADS,
    Harness,
    Seeded,
    Variant,
    read_guards,
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
    if harness.variant in (PACE, EXAMPLES):
        return harness.ask(name=bug.name)
    most = SEEDS_MOST if harness.variant is STEPS else THREAD_SEEDS_MOST
    return harness.ask(0, most, name=bug.name)


def policy_proofs(place: Workplace, short: bool) -> list[Proof]:
    steps, threads, addresses, pace, examples = (
        place.harness(variant)
        for variant in (STEPS, THREADS, ADDRESSES, PACE, EXAMPLES)
    )
    seeds = SEEDS_SHORT if short else SEEDS_LONG
    few = THREAD_SEEDS_SHORT if short else THREAD_SEEDS_LONG
    most = ADDRESS_SECONDS_SHORT if short else 0
    guards = read_guards(POLICY)
    freed_at_once = next(one for one in guards if one.name == "device_freed_at_once")
    proofs = [
        Proof("policy/steps", FINE, partial(steps.ask, 0, seeds)),
        Proof("policy/threads", FINE, partial(threads.ask, 0, few)),
        Proof("policy/addresses", FINE, partial(addresses.ask, 0, few, most)),
        Proof(
            *("policy/addresses_freed_at_once", FOUND),
            partial(_ask_seeded, addresses, freed_at_once),
        ),
        Proof("policy/pace", FINE, pace.ask),
        Proof("policy/examples", FINE, examples.ask),
    ]
    programs = {"steps": steps, "threads": threads, "pace": pace, "examples": examples}
    return proofs + [
        Proof(
            *(f"policy/{one.name}", FOUND),
            partial(_ask_seeded, programs[one.program], one),
            one.short,
        )
        for one in guards
    ]


def ring_proofs(place: Workplace) -> list[Proof]:
    text = (place.kernel / RING).read_text()

    def asked(name: str, meaning: ring.Meaning | None = None) -> tuple[str, str]:
        return ring.ask(place.folder(f"ring-{name}"), place.run, text, meaning)

    return [Proof("ring/as_it_is", FINE, partial(asked, "as_it_is"))] + [
        Proof(f"ring/{one.name}", FOUND, partial(asked, one.name, one))
        for one in ring.read_meanings()
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
