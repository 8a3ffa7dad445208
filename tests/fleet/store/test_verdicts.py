"""What evaluated jobs say is read without their facts, problem by problem, on every database."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import update

from skipjack.errors import UsageError
from skipjack.fleet.model import JobKind, JobPlan, Label
from skipjack.fleet.store import NewProblem, Store
from skipjack.fleet.store.jobs import jobs
from skipjack.fleet.store.schema import tables

KEYS = ["matmul:8x8x8:f32", "matmul:16x16x16:f32"]
PLANS = [
    JobPlan(KEYS[1], "znver4/1", kind=JobKind.FIND),
    JobPlan(KEYS[0], "znver4/1", kind=JobKind.FIND),
    JobPlan(KEYS[0], "gfx900/56", kind=JobKind.FIND),
    JobPlan(KEYS[0], "znver4/1", "auto"),
    JobPlan(KEYS[1], "znver4/1", "auto"),
]


def test_jobs_of_a_problem_come_in_a_row(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_PAGE", 2)
    store.problems.add([NewProblem(key, "matmul") for key in KEYS], "t")
    for label in ("L", "M"):
        store.jobs.add(Label(label, "ann"), PLANS)
    done = {"state": "evaluated", "result": json.dumps({"time_ns": 1.5}), "toolchain": "tools"}
    with store.database.engine.begin() as connection:
        connection.execute(update(tables.jobs).where(tables.jobs.c.id != 5).values(**done))
    found = list(store.results.verdicts("L"))
    order = [PLANS[1], PLANS[2], PLANS[3], PLANS[0]]
    assert [(one.problem, one.device, one.kind) for one in found] == [
        (plan.problem, plan.device, plan.kind) for plan in order
    ]
    assert {(one.toolchain, one.result["time_ns"]) for one in found} == {("tools", 1.5)}
    assert [one.kind for one in store.results.verdicts("L", "gfx900/56")] == [JobKind.FIND]
    with pytest.raises(UsageError, match="unknown device"):
        list(store.results.verdicts("L", "gfx900/57"))
