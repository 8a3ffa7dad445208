"""How often programs call problems: recorded by tags, and taken over by jobs."""

from __future__ import annotations

from sqlalchemy import select

from skipjack.fleet.model import JobPlan, Label
from skipjack.fleet.problem_import import Misses
from skipjack.fleet.store import NewProblem, Store
from skipjack.fleet.store.schema import tables
from skipjack.runtime import MissedProblem

KEYS = ("add:8:f32", "add:16:f32", "add:32:f32")


def calls(store: Store, label: str) -> dict[str, float | None]:
    job, problem = tables.jobs.c, tables.problems.c
    query = (
        select(problem.key, job.calls)
        .join(tables.jobs, job.problem == problem.id)
        .join(tables.labels, tables.labels.c.id == job.label)
        .where(tables.labels.c.name == label)
    )
    with store.database.engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(query)}


def test_jobs_have_the_calls_of_their_tag_or_of_all(store: Store) -> None:
    problems = [NewProblem(key, "add", "", "f32") for key in KEYS]
    for tag, counts in {"one": (10.0, 0.0), "other": (5.0, 7.0)}.items():
        store.problems.add(problems, tag)
        store.problems.set_calls(dict(zip(KEYS, counts, strict=False)), tag)
    plans = [JobPlan(key, "znver4/1") for key in KEYS]
    store.jobs.add(Label("of one", "me"), plans, tag="one")
    store.jobs.add(Label("of all", "me"), plans)
    assert calls(store, "of one") == {KEYS[0]: 10.0, KEYS[1]: 0.0, KEYS[2]: None}
    assert calls(store, "of all") == {KEYS[0]: 15.0, KEYS[1]: 7.0, KEYS[2]: None}
    store.problems.set_calls({KEYS[2]: 3.0, "unknown": 1.0}, "one")
    assert calls(store, "of one")[KEYS[2]] is None, "jobs that were there keep theirs"


def test_calls_of_missed_problems_are_sums_over_devices() -> None:
    missed = [
        MissedProblem(KEYS[0], "znver4/1", "a", calls=5),
        MissedProblem(KEYS[0], "znver4/2", "b", calls=7),
        MissedProblem(KEYS[1], "znver4/1", "a"),
    ]
    plans = tuple(JobPlan(one.problem, one.device) for one in missed)
    assert Misses(plans=plans, taken=tuple(missed)).calls == {KEYS[0]: 12.0, KEYS[1]: 1.0}
