"""Find and kernel jobs that a label gets in addition to tuning jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from skipjack.bank import FIND as RANKING
from skipjack.bank import Bank, BankEntry
from skipjack.fleet.labels.further_jobs import make_finds, make_kernels, make_searches
from skipjack.fleet.model import JobKind, JobPlan, JobState, Label, PriorResult
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.native import cpu
from skipjack.solvers import find_solver

HERE = cpu.detect()
KEYS = ("matmul:8x8x8:f32", "matmul:9x9x9:f32")
TUNED = [
    JobPlan(KEYS[0], HERE.name, "nest", searcher="genetic", budget=4, round=4),
    JobPlan(KEYS[0], HERE.name, "packed", budget=16, round=8),
    JobPlan(KEYS[1], HERE.name, budget=8, round=8),
]


@pytest.fixture
def store(user_dir: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{user_dir / 'fleet.sqlite'}") as opened:
        opened.problems.add([NewProblem(key, "matmul", "", "f32") for key in KEYS], "t")
        opened.jobs.add(Label("l", "me"), TUNED)
        yield opened


def plans(store: Store, kind: JobKind) -> list[JobPlan]:
    return [plan for plan in store.labels.plans("l") if plan.kind is kind]


def test_every_problem_on_every_device_gets_one_find_with_the_largest_budget(store: Store) -> None:
    made = make_finds(store, "l")
    assert (made.problems, made.made, made.left_out) == (2, 2, 0)
    first, second = plans(store, JobKind.FIND)
    assert (first.budget, first.round, first.searcher) == (16, 8, "auto")
    assert replace(second, kind=JobKind.TUNE) == TUNED[2]
    assert make_finds(store, "l").made == 0, "they are there"


def test_finds_and_kernels_are_made_for_some_devices(store: Store) -> None:
    store.jobs.add(Label("l", "me"), [JobPlan(KEYS[0], "skylake/1")])
    assert make_finds(store, "l", devices=["skylake/1"]).made == 1
    assert [plan.device for plan in plans(store, JobKind.FIND)] == ["skylake/1"]
    assert make_searches(store, "l", devices=["skylake/1"]).made == 0
    assert make_kernels(store, "l", devices=["skylake/1"]).problems == 1


def test_what_the_bank_ranks_today_is_left_out_of_a_hybrid_find(
    store: Store, user_dir: Path
) -> None:
    version = find_solver("nest").version
    new = BankEntry(KEYS[0], HERE.class_key, HERE.name, "nest", version, {}, 1, 1, None, "", {})
    bank = Bank.open(user_dir)
    bank.add([replace(new, kind=RANKING), replace(new, problem=KEYS[1])])
    made = make_finds(store, "l", hybrid=bank)
    assert (made.made, made.left_out) == (1, 1)
    assert [plan.problem for plan in plans(store, JobKind.FIND)] == [KEYS[1]], (
        "a tuning is no ranking"
    )


class Judged:
    """A store whose label has winners."""

    def __init__(self, store: Store, versions: Mapping[str, int | None]) -> None:
        self._store, self._versions = store, versions

    @property
    def results(self) -> Self:
        return self

    def winners(self, label: str) -> dict[tuple[str, str], PriorResult]:
        return {
            (key, HERE.name): PriorResult("nest", {}, version)
            for key, version in self._versions.items()
        }

    def packed(self, label: str) -> dict[tuple[str, str], PriorResult]:
        return {(KEYS[0], HERE.name): PriorResult("rows", {})}

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def test_what_has_no_winner_or_an_outdated_one_is_searched_and_not_packed(store: Store) -> None:
    judged = Judged(store, {KEYS[0]: 10**6})
    assert make_searches(judged, "l").made == 2  # type: ignore[arg-type]
    packed = make_kernels(judged, "l")  # type: ignore[arg-type]
    assert (packed.made, packed.left_out) == (0, 2)


def test_winners_are_packed_and_fresh_ones_begin_as_if_started_over(store: Store) -> None:
    judged = Judged(store, {KEYS[0]: find_solver("nest").version})
    packed = make_kernels(judged, "l", fresh=True)  # type: ignore[arg-type]
    assert (packed.made, packed.left_out) == (1, 1)
    (job,) = [job for job in store.jobs.find(label="l") if job.plan.kind is JobKind.KERNELS]
    assert (job.plan.problem, job.status.epoch) == (KEYS[0], 1)
    assert store.queue.live("l", JobKind.KERNELS) == {JobState.NEW: 1}
