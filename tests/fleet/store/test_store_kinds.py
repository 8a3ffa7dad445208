"""Jobs that tune, find and pack in one label: each run takes its own kind."""

from __future__ import annotations

import json
from typing import Any

from crew import LABEL, ZEN, Crew, crew, load, on_sqlite

from skipjack.fleet.further_jobs import make_kernels, make_searches
from skipjack.fleet.records import FIND, KERNELS, Kind, Known, Label, Plan
from skipjack.fleet.states import Built, Stage, State, Told
from skipjack.fleet.store.store import Store
from skipjack.fleet.task import Task
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
FACTS = {
    "format": 1,
    "tables": {
        "studies": {"columns": ["id", "solver"], "rows": [["s", "rows"]]},
        "study_log": {
            "columns": ["study", "kind", "status", "value", "config"],
            "rows": [
                ["s", "ask", None, None, '{"tile":1}'],
                ["s", "tell", "ok", 9.0, '{"tile":1}'],
                ["s", "tell", "ok", 7.0, '{"tile":6}'],
                ["s", "tell", "crash", None, '{"tile":7}'],
            ],
        },
    },
}


def add(store: Store, solver: str, label: str = LABEL, size: int = 1) -> None:
    store.add_jobs(Label(label, "me"), [Plan(f"matmul:{size}x8x8", ZEN.name, solver)])


def take(workers: Crew, kind: Kind, label: str = LABEL) -> Task:
    """Claim a job of a kind to build."""
    ((_, task),) = workers.store.claim(
        workers.owner, Stage.BUILD, [workers.want()], label=label, kind=kind
    )
    return task


def finish(workers: Crew, kind: Kind, result: dict[str, Any], label: str = LABEL) -> int:
    """Do a job of a kind from its start to its end."""
    store, want = workers.store, workers.want(devices=(ZEN.name,))
    for stage in Stage:
        ((claim, _),) = store.claim(workers.owner, stage, [want], label=label, kind=kind)
        facts = json.dumps(FACTS if stage is Stage.EVALUATE else {"format": 1, "tables": {}})
        if stage is Stage.BUILD:
            assert not workers.settle(claim, Built(), facts=facts)
        else:
            assert not workers.settle(claim, Told(finished=True), facts=facts, result=result)
    return claim.job


def test_a_claim_takes_jobs_of_its_kind_and_they_are_counted_apart(store: Store) -> None:
    load(store, 2)
    for solver in (FIND, KERNELS, "miopen"):
        add(store, solver)
    workers = crew(store)
    want = [workers.want(count=5)]
    taken = {
        kind: store.claim(workers.owner, Stage.BUILD, want, label=LABEL, kind=kind)
        for kind in (Kind.FIND, Kind.TUNE)
    }
    assert [task.plan.solver for _, task in taken[Kind.FIND]] == [FIND]
    assert sorted(task.plan.solver for _, task in taken[Kind.TUNE]) == ["auto", "auto", "miopen"]
    assert store.live(LABEL, Kind.TUNE) == {State.BUILDING: 3}
    assert store.live(LABEL, Kind.KERNELS) == {State.NEW: 1}
    assert sum(store.live(LABEL).values()) == 5


@on_sqlite
def test_a_find_is_told_what_did_well_in_any_label_newest_first(store: Store) -> None:
    load(store, 1, label="before")
    add(store, FIND)
    add(store, FIND, "another")
    workers = crew(store)
    finish(workers, Kind.TUNE, TUNED, "before")
    finish(workers, Kind.FIND, RANKED, "another")
    found = take(workers, Kind.FIND).known
    assert [(one.solver, one.config["tile"]) for one in found] == [
        *(("nest", 8), ("rows", 2)),  # of the ranking
        *(("nest", 4), ("rows", 6)),  # of the tuning, and the best of its other trials
    ]


@on_sqlite
def test_kernels_are_of_the_winner_and_not_applicable_without_one(store: Store) -> None:
    load(store, 2)
    for size in (1, 2):
        add(store, KERNELS, size=size)
    workers = crew(store)
    finish(workers, Kind.TUNE, TUNED)
    assert take(workers, Kind.KERNELS).known == (Known("nest", {"tile": 4}),)
    assert not store.claim(
        workers.owner, Stage.BUILD, [workers.want()], label=LABEL, kind=Kind.KERNELS
    )
    assert store.live(LABEL, Kind.KERNELS)[State.NOT_APPLICABLE] == 1
    assert list(store.winners(LABEL)) == [("matmul:1x8x8", ZEN.name)]


def test_a_ranking_by_the_same_toolchain_is_taken_over_with_its_facts(store: Store) -> None:
    load(store, 1, label="before")
    add(store, FIND, "before")
    load(store, 1)
    original = finish(crew(store), Kind.FIND, RANKED, "before")
    pairs = [("matmul:1x8x8", ZEN.name), ("matmul:unknown", ZEN.name)]
    assert store.take_over(LABEL, pairs, {ZEN.name: "yesterday"}) == 0
    assert store.take_over(LABEL, pairs, {ZEN.name: "today"}) == 1
    assert store.take_over(LABEL, pairs, {ZEN.name: "today"}) == 0, "once is enough"
    (found,) = store.results(LABEL)
    assert found.job.result is not None
    assert found.job.result["taken_over"] == {"job": original, "label": "before"}
    assert len(found.facts) == 2
    assert [line.event for line in store.story(found.job.id)] == ["taken_over"]


@on_sqlite
def test_a_reset_of_one_kind_leaves_the_others_as_they_are(store: Store) -> None:
    load(store, 1)
    add(store, FIND)
    workers = crew(store)
    finish(workers, Kind.TUNE, TUNED)
    finish(workers, Kind.FIND, RANKED)
    assert store.reset(LABEL, State.EVALUATED, State.NEW, kind=Kind.FIND).reset == 1
    assert store.live(LABEL, Kind.TUNE) == {State.EVALUATED: 1}
    assert store.live(LABEL, Kind.FIND) == {State.NEW: 1}


@on_sqlite
def test_another_winner_than_was_packed_is_packed_instead(store: Store) -> None:
    load(store, 1)
    add(store, FIND)
    workers = crew(store)
    finish(workers, Kind.TUNE, TUNED)
    assert make_kernels(store, LABEL).made == 1
    finish(workers, Kind.KERNELS, TUNED)
    assert make_kernels(store, LABEL).again == 0
    newer = {**RANKED["verdict"], "solver_version": find_solver("nest").version}
    finish(workers, Kind.FIND, {**RANKED, "verdict": newer})
    assert make_kernels(store, LABEL).again == 1
    assert store.live(LABEL, Kind.KERNELS) == {State.NEW: 1}


@on_sqlite
def test_an_outdated_ranking_is_searched_again(store: Store) -> None:
    load(store, 2)
    add(store, FIND)
    finish(crew(store), Kind.FIND, RANKED)
    searches = make_searches(store, LABEL)
    assert (searches.problems, searches.made, searches.again) == (2, 1, 1)
