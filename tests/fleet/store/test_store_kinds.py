"""Jobs that tune, find and pack in one label: each run takes its own kind."""

from __future__ import annotations

from typing import Any

import pytest
from crew import LABEL, ZEN, Crew, crew, found_out, load, on_sqlite, rows
from sqlalchemy import event, text

from skipjack.core import Config, Problem, Status, Study, Trial
from skipjack.fleet.labels.further_jobs import make_kernels, make_searches
from skipjack.fleet.model import (
    Built,
    JobKind,
    JobPlan,
    JobStage,
    JobState,
    Label,
    PriorResult,
    Task,
    Told,
)
from skipjack.fleet.store import Store, open_store
from skipjack.fleet.store.sql import statements
from skipjack.ledger import Facts, Ledger, read_facts
from skipjack.solvers import find_solver

TUNED = {"solver": "nest", "config": {"tile": 4}, "time_ns": 5.0, "code": {"digest": "d"}}
RANKED: dict[str, Any] = {
    "solvers": [
        {"solver": "nest", "status": "ok", "config": {"tile": 8}, "solver_version": 3},
        {"solver": "rows", "status": "ok", "config": {"tile": 2}, "solver_version": 1},
    ],
    "verdict": {"solver": "nest", "config": {"tile": 8}, "time_ns": 4.0, "solver_version": 3},
    "toolchain": "today",
}


def searched_facts() -> Facts:
    """What a search of solver ``rows`` leaves in a ledger."""
    ledger, empty = Ledger.in_memory(), Ledger.in_memory()
    try:
        study = Study(Problem("matmul", (1, 8, 8)), "rows", ZEN.class_key, "genetic", seed=0)
        ledger.start_study(study, 1)
        ledger.log_ask(study.id, Config(tile=1))
        trials = [Trial(Config(tile=1), value=9.0), Trial(Config(tile=6), value=7.0)]
        ledger.log_tells(study.id, [*trials, Trial(Config(tile=7), Status.CRASH, reason="SIGSEGV")])
        return read_facts(ledger.facts_since(empty.snapshot()))
    finally:
        ledger.close()
        empty.close()


def add(
    store: Store, kind: JobKind, label: str = LABEL, size: int = 1, solver: str = "auto"
) -> None:
    driver = solver if solver == "miopen" else ""
    plan = JobPlan(f"matmul:{size}x8x8", ZEN.name, solver, kind=kind, driver=driver)
    store.jobs.add(Label(label, "me"), [plan])


def take(workers: Crew, kind: JobKind, label: str = LABEL) -> Task:
    """Claim a job of a kind to build."""
    ((_, task),) = workers.store.queue.claim(
        workers.owner, JobStage.BUILD, [workers.want()], label=label, kind=kind
    )
    return task


def finish(workers: Crew, kind: JobKind, result: dict[str, Any], label: str = LABEL) -> int:
    """Do a job of a kind from its start to its end."""
    store, want = workers.store, workers.want(devices=(ZEN,))
    for stage in JobStage:
        ((claim, _),) = store.queue.claim(workers.owner, stage, [want], label=label, kind=kind)
        facts = searched_facts() if stage is JobStage.EVALUATE else found_out("built")
        if stage is JobStage.BUILD:
            assert not workers.finish(claim, Built(), facts=facts)
        else:
            assert not workers.finish(claim, Told(finished=True), facts=facts, result=result)
    return claim.job


def test_a_claim_takes_jobs_of_its_kind_and_they_are_counted_apart(store: Store) -> None:
    load(store, 2)
    add(store, JobKind.FIND)
    add(store, JobKind.KERNELS)
    add(store, JobKind.TUNE, solver="miopen")
    workers = crew(store)
    want = [workers.want(count=5)]
    taken = {
        kind: store.queue.claim(workers.owner, JobStage.BUILD, want, label=LABEL, kind=kind)
        for kind in (JobKind.FIND, JobKind.TUNE)
    }
    assert [task.plan.kind for _, task in taken[JobKind.FIND]] == [JobKind.FIND]
    assert sorted(task.plan.solver for _, task in taken[JobKind.TUNE]) == ["auto", "auto", "miopen"]
    assert store.queue.live(LABEL, JobKind.TUNE) == {JobState.BUILDING: 3}
    assert store.queue.live(LABEL, JobKind.KERNELS) == {JobState.NEW: 1}
    assert sum(store.queue.live(LABEL).values()) == 5


@on_sqlite
def test_a_find_is_told_what_did_well_in_any_label_newest_first(store: Store) -> None:
    load(store, 1, label="before")
    add(store, JobKind.FIND)
    add(store, JobKind.FIND, "another")
    workers = crew(store)
    finish(workers, JobKind.TUNE, TUNED, "before")
    finish(workers, JobKind.FIND, RANKED, "another")
    found = take(workers, JobKind.FIND).known
    assert [(one.solver, one.config["tile"]) for one in found] == [
        *(("nest", 8), ("rows", 2)),  # of the ranking
        *(("nest", 4), ("rows", 6)),  # of the tuning, and the best of its other trials
    ]


@on_sqlite
def test_kernels_are_of_the_winner_and_not_applicable_without_one(store: Store) -> None:
    load(store, 2)
    for size in (1, 2):
        add(store, JobKind.KERNELS, size=size)
    workers = crew(store)
    finish(workers, JobKind.TUNE, TUNED)
    assert take(workers, JobKind.KERNELS).known == (PriorResult("nest", {"tile": 4}),)
    assert not store.queue.claim(
        workers.owner, JobStage.BUILD, [workers.want()], label=LABEL, kind=JobKind.KERNELS
    )
    assert store.queue.live(LABEL, JobKind.KERNELS)[JobState.NOT_APPLICABLE] == 1
    assert list(store.results.winners(LABEL)) == [("matmul:1x8x8", ZEN.name)]


@on_sqlite
def test_the_winner_of_tunings_is_who_surely_beats_the_default(store: Store) -> None:
    """A library may have been slow in another session."""
    load(store, 1)
    add(store, JobKind.TUNE, solver="rows")
    workers = crew(store)
    for tile, default, library in ((4, 6.0, 1.2), (8, 2.0, 30.0)):
        gains = {"default": default, "numpy": library}
        told = {
            "config": {"tile": tile},
            "vendor": "numpy",
            "vendor_ns": 5.0 * library,
            "baseline": "numpy",
            "speedups": {name: dict.fromkeys(("ratio", "low"), x) for name, x in gains.items()},
        }
        finish(workers, JobKind.TUNE, {**TUNED, **told})
    (winner,) = store.results.winners(LABEL).values()
    assert winner == PriorResult("nest", {"tile": 4})


def test_a_ranking_by_the_same_toolchain_is_taken_over_with_its_facts(store: Store) -> None:
    load(store, 1, label="before")
    add(store, JobKind.FIND, "before")
    load(store, 1)
    original = finish(crew(store), JobKind.FIND, RANKED, "before")
    pairs = [("matmul:1x8x8", ZEN.name), ("matmul:unknown", ZEN.name)]
    assert store.jobs.take_over(LABEL, pairs, {ZEN.name: "yesterday"}) == 0
    assert store.jobs.take_over(LABEL, pairs, {ZEN.name: "today"}) == 1
    assert store.jobs.take_over(LABEL, pairs, {ZEN.name: "today"}) == 0, "once is enough"
    (found,) = store.results.jobs(LABEL)
    assert found.job.result is not None
    assert found.job.result["taken_over"] == {"job": original, "label": "before"}
    assert len(found.facts) == 2
    assert [line.event for line in store.jobs.history(found.job.id)] == ["taken_over"]


@pytest.mark.parametrize("store_url", ["postgresql", "mariadb"], indirect=True)
def test_a_job_that_another_run_makes_meanwhile_stays_as_it_is(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(store, 2, label="before")
    load(store, 2)
    for size in (1, 2):
        add(store, JobKind.FIND, "before", size)
        finish(crew(store), JobKind.FIND, RANKED, "before")
    inserting = statements.insert_new

    def overtaken(*arguments: Any) -> int:
        monkeypatch.undo()
        with open_store(store_url) as other:
            add(other, JobKind.FIND)
        return inserting(*arguments)

    monkeypatch.setattr(statements, "insert_new", overtaken)
    # The other waits for our locks until our transaction has done nothing for too long.
    limit = "idle_transaction_timeout = 1"
    if "postgresql" in store_url:
        limit = "idle_in_transaction_session_timeout = '1s'"
    with store.database.engine.begin() as connection:
        connection.execute(text(f"SET {limit}"))
    pairs = [(f"matmul:{size}x8x8", ZEN.name) for size in (1, 2)]
    facts = rows(store, "rounds")
    assert store.jobs.take_over(LABEL, pairs, {ZEN.name: "today"}) == 1
    theirs, ours = sorted(
        (job for job in store.jobs.find(label=LABEL) if job.plan.kind is JobKind.FIND),
        key=lambda job: job.plan.problem,
    )
    assert (theirs.status.state, ours.status.state) == (JobState.NEW, JobState.EVALUATED)
    assert store.jobs.history(theirs.id) == [] and len(store.jobs.history(ours.id)) == 1
    assert rows(store, "rounds") == facts + 2
    finish(crew(store), JobKind.FIND, RANKED)


@on_sqlite
def test_rankings_are_looked_up_by_ids_of_problems_and_not_by_their_texts(store: Store) -> None:
    load(store, 1)
    asked: list[str] = []
    event.listen(
        store.database.engine, "before_cursor_execute", lambda *given: asked.append(given[2])
    )
    store.jobs.take_over(LABEL, [("matmul:1x8x8", ZEN.name)], {ZEN.name: "today"})
    assert asked and not any("problems.key IN" in one.replace('"', "") for one in asked)


@on_sqlite
def test_a_reset_of_one_kind_leaves_the_others_as_they_are(store: Store) -> None:
    load(store, 1)
    add(store, JobKind.FIND)
    workers = crew(store)
    finish(workers, JobKind.TUNE, TUNED)
    finish(workers, JobKind.FIND, RANKED)
    assert store.jobs.reset(LABEL, JobState.EVALUATED, JobState.NEW, kind=JobKind.FIND).reset == 1
    assert store.queue.live(LABEL, JobKind.TUNE) == {JobState.EVALUATED: 1}
    assert store.queue.live(LABEL, JobKind.FIND) == {JobState.NEW: 1}


@on_sqlite
def test_another_winner_than_was_packed_is_packed_instead(store: Store) -> None:
    load(store, 1)
    add(store, JobKind.FIND)
    workers = crew(store)
    finish(workers, JobKind.TUNE, TUNED)
    assert make_kernels(store, LABEL).made == 1
    finish(workers, JobKind.KERNELS, TUNED)
    assert make_kernels(store, LABEL).again == 0
    newer = {**RANKED["verdict"], "solver_version": find_solver("nest").version}
    finish(workers, JobKind.FIND, {**RANKED, "verdict": newer})
    assert make_kernels(store, LABEL).again == 1
    assert store.queue.live(LABEL, JobKind.KERNELS) == {JobState.NEW: 1}


@on_sqlite
def test_what_had_no_winner_while_it_was_ranked_anew_is_packed_afterwards(store: Store) -> None:
    load(store, 2)
    workers = crew(store)
    finish(workers, JobKind.TUNE, TUNED)
    assert make_kernels(store, LABEL).made == 1
    add(store, JobKind.KERNELS, size=2)
    store.jobs.reset(LABEL, JobState.EVALUATED, JobState.NEW, kind=JobKind.TUNE)
    want = [workers.want(count=2)]
    assert not store.queue.claim(
        workers.owner, JobStage.BUILD, want, label=LABEL, kind=JobKind.KERNELS
    )
    assert store.queue.live(LABEL, JobKind.KERNELS) == {JobState.NOT_APPLICABLE: 2}
    finish(workers, JobKind.TUNE, TUNED)
    again = make_kernels(store, LABEL)
    assert (again.made, again.again, again.left_out) == (0, 1, 1)
    assert store.queue.live(LABEL, JobKind.KERNELS) == {JobState.NEW: 1, JobState.NOT_APPLICABLE: 1}


@on_sqlite
def test_an_outdated_ranking_is_searched_again(store: Store) -> None:
    load(store, 2)
    add(store, JobKind.FIND)
    finish(crew(store), JobKind.FIND, RANKED)
    searches = make_searches(store, LABEL)
    assert (searches.problems, searches.made, searches.again) == (2, 1, 1)
