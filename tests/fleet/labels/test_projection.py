"""Finished jobs reach the ledger and the bank: the best of a label, whichever came last."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from skipjack.bank import Bank, BankEntry
from skipjack.core import Config, Objective, Study, TimingProtocol
from skipjack.errors import UsageError
from skipjack.fleet.labels import project
from skipjack.fleet.model import Job, JobPlan, JobState, JobStatus, Label
from skipjack.fleet.store import JobResult, NewProblem, open_store
from skipjack.ledger import DecisionRecord, Ledger
from skipjack.operations import parse

PROBLEM = parse("matmul:8x8x8")
CLASS = "cpu:znver4/1:0123"


def entry(
    solver: str, time_ns: float, minute: int, vendor: str = "", ratio: float = 1.0
) -> BankEntry:
    speedup = {"default": {"ratio": 2.0, "low": 1.9, "high": 2.1}}
    if vendor:
        speedup["vendor"] = {"ratio": ratio, "low": ratio, "high": ratio}
    return BankEntry(
        problem=PROBLEM.key,
        device=CLASS,
        device_name="znver4/1",
        solver=solver,
        solver_version=1,
        config={"tile": 8},
        time_ns=time_ns,
        default_ns=2 * time_ns,
        vendor_ns=time_ns * ratio if vendor else None,
        vendor=vendor,
        speedup=speedup,
        evidence={"artifact": "a" * 64},
        created=f"2026-11-15T10:{minute:02}:00.000000Z",
    )


FAST_BUT_NOISY = entry("nest", 90.0, 1, "mkl", 1.1)
BEST = entry("packed", 100.0, 2, "mkl", 1.5)
LATE = entry("rows", 100.0, 3, "mkl", 0.9)


def facts_of(entry: BankEntry) -> str:
    """What an evaluator writes down for this entry."""
    with Ledger.in_memory() as ledger:
        study = Study(
            PROBLEM, entry.solver, CLASS, "random", 0, "space", Objective(), TimingProtocol()
        )
        before = ledger.snapshot()
        ledger.start_study(study, 1)
        ledger.add_decision(
            DecisionRecord(
                study.id,
                entry.problem,
                entry.device,
                entry.solver,
                Config(dict(entry.config)),
                "banked",
                entry.record(),
                entry.created,
            )
        )
        return ledger.facts_since(before)


@dataclass
class Finished:
    """A store whose label has these results."""

    entries: tuple[BankEntry, ...]

    def jobs(self, label: str) -> Iterator[JobResult]:
        for number, one in enumerate(self.entries):
            plan = JobPlan(PROBLEM.key, "znver4/1", one.solver)
            yield JobResult(
                Job(number, label, plan, JobStatus(JobState.EVALUATED)), [facts_of(one)]
            )


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path) as opened:
        yield opened


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank.open(tmp_path)


@pytest.mark.parametrize("order", [*itertools.permutations((FAST_BUT_NOISY, BEST, LATE))])
def test_the_largest_gain_over_the_same_library_is_banked(
    order: tuple[BankEntry, ...], ledger: Ledger, bank: Bank
) -> None:
    done = project(Finished(order), "L", ledger, bank)
    assert (done.jobs, done.entries, done.changed) == (3, 1, 1)
    (kept,) = bank.entries()
    assert kept.solver == "packed"
    bank.rebuild(ledger)
    assert bank.entries() == [kept], "also when the bank is made anew"


def test_projecting_again_changes_nothing(ledger: Ledger, bank: Bank) -> None:
    store = Finished((BEST, LATE))
    assert project(store, "L", ledger, bank).rows > 0
    before = bank.path.read_bytes(), ledger.summary()
    again = project(store, "L", ledger, bank)
    assert (again.rows, again.changed) == (0, 0)
    assert (bank.path.read_bytes(), ledger.summary()) == before


def test_a_better_job_that_ends_earlier_wins_when_it_is_seen_later(
    ledger: Ledger, bank: Bank
) -> None:
    project(Finished((LATE,)), "L", ledger, bank)
    assert bank.entries() == [LATE]
    project(Finished((LATE, BEST)), "L", ledger, bank)
    assert bank.entries() == [BEST]
    assert len(ledger.decisions()) == 2, "what the jobs said, and nothing of our own"


def test_the_only_job_is_banked_as_it_is(ledger: Ledger, bank: Bank) -> None:
    project(Finished((BEST,)), "L", ledger, bank)
    assert bank.entries() == [BEST]
    assert [verdict.created for verdict in ledger.decisions()] == [BEST.created]


def test_an_entry_of_the_bank_with_stronger_evidence_stays(ledger: Ledger, bank: Bank) -> None:
    """A tuning found a kernel; then a fleet's short run, later, has a library win."""
    own = entry("nest", 50.0, 1, "mkl", 6.0)
    won = replace(entry("mkl", 60.0, 59, "mkl", 0.7), config={}, vendor_ns=60.0, evidence={})
    bank.put(own)
    done = project(Finished((won, LATE)), "L", ledger, bank)
    assert (done.entries, done.changed, done.kept) == (1, 0, 1)
    assert bank.entries() == [own]
    bank.rebuild(ledger)
    assert bank.entries() == [own]


def test_a_weaker_entry_of_the_bank_gives_way(ledger: Ledger, bank: Bank) -> None:
    bank.put(entry("nest", 50.0, 59, "mkl", 1.2))
    done = project(Finished((BEST, LATE)), "L", ledger, bank)
    assert (done.new, done.replaced, done.kept) == (0, 1, 0)
    assert bank.entries() == [BEST]


def test_a_library_that_won_gains_nothing_over_itself(ledger: Ledger, bank: Bank) -> None:
    won = replace(
        entry("mkl", 80.0, 1, "mkl", 0.7), config={}, vendor_ns=80.0, evidence={"artifact": ""}
    )
    project(Finished((won, LATE)), "L", ledger, bank)
    assert bank.entries() == [won]
    project(Finished((won, LATE, BEST)), "L", ledger, bank)
    assert bank.entries() == [BEST]


def test_a_verdict_that_is_no_entry_costs_that_verdict(
    ledger: Ledger, bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    done = project(Finished((replace(LATE, time_ns=-1.0), BEST)), "L", ledger, bank)
    assert (done.jobs, done.entries, done.new) == (2, 1, 1)
    assert bank.entries() == [BEST]
    assert "left out a verdict of job 0: field time_ns is negative" in caplog.text


def test_a_label_without_finished_jobs_says_so(ledger: Ledger, bank: Bank) -> None:
    with pytest.raises(UsageError, match="label L has no finished job yet; skipjack status -l L"):
        project(Finished(()), "L", ledger, bank)


def test_the_command_speaks_of_unknown_and_unfinished_labels(
    skipjack: Callable[..., CompletedProcess[str]], user_dir: Path
) -> None:
    with open_store(f"sqlite:///{user_dir / 'fleet.sqlite'}") as store:
        store.problems.add([NewProblem(PROBLEM.key, "matmul")], "t")
        store.jobs.add(Label("resnet", "ann"), [JobPlan(PROBLEM.key, "znver4/1")])
    unknown = skipjack("bank", "build", "-l", "resnett")
    assert (unknown.returncode, "did you mean resnet?" in unknown.stderr) == (2, True)
    early = skipjack("bank", "build", "-l", "resnet", "--json")
    assert (early.returncode, "no finished job yet" in early.stderr) == (2, True)
    assert early.stdout == ""
