"""Counts of jobs by anything that people ask for."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from skipjack.errors import UsageError
from skipjack.fleet.model import Host, JobPlan, JobState, Label
from skipjack.fleet.store import NewProblem, Store
from skipjack.fleet.store.jobs.job_counts import BY
from skipjack.fleet.store.schema import tables

ON_SQLITE = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""Where all databases are asked the same."""

CONV = NewProblem("conv2d:n1c8h8w8k8y3x3:f32:NCHW:wrw", "conv2d", "wrw", "f32")
MATMUL = NewProblem("matmul:8x8x8:f32", "matmul", "", "f32")
PLANS = [
    JobPlan(CONV.key, "gfx900/56"),
    JobPlan(CONV.key, "gfx900/120"),
    JobPlan(MATMUL.key, "znver4/1", "nest"),
    JobPlan(MATMUL.key, "znver4/1", "packed"),
]


@pytest.fixture
def loaded(store: Store) -> Store:
    """Four jobs in L, one of them in error on gpu7, and one in M."""
    store.problems.add([CONV, MATMUL], "t")
    store.jobs.add(Label("L", "ann"), PLANS)
    store.jobs.add(Label("M", "ann"), PLANS[:1])
    machine = store.queue.register(Host("gpu7", 1, 1), "local").id
    wrong = next(job.id for job in store.jobs.find() if job.plan.solver == "packed")
    broken = {"state": "error", "stage": "evaluate", "reason": "broken", "gpu": "3"}
    with store.database.engine.begin() as connection:
        this = update(tables.jobs).where(tables.jobs.c.id == wrong)
        connection.execute(this.values(**broken, eval_machine=machine))
    return store


def test_jobs_are_counted_by_whatever_is_asked(loaded: Store) -> None:
    assert loaded.jobs.counts() == [(("new",), 4), (("error",), 1)]
    assert loaded.jobs.counts(by=["label", "state"]) == [
        (("L", "new"), 3),
        (("L", "error"), 1),
        (("M", "new"), 1),
    ]
    assert loaded.jobs.counts(label="L", by=["arch", "units"]) == [
        (("gfx900", "56"), 1),
        (("gfx900", "120"), 1),
        (("znver4", "1"), 2),
    ]
    assert loaded.jobs.counts(by=["arch"]) == [(("gfx900",), 3), (("znver4",), 2)]
    assert loaded.jobs.counts(by=["operation", "direction"]) == [
        (("conv2d", "wrw"), 3),
        (("matmul", ""), 2),
    ]


def test_filters_and_all_columns_at_once(loaded: Store) -> None:
    ((values, count),) = loaded.jobs.counts(by=BY, state=JobState.ERROR, device="znver4/1")
    assert count == 1
    assert dict(zip(BY, values, strict=True)) == {
        "label": "L",
        "device": "znver4/1",
        "arch": "znver4",
        "units": "1",
        "state": "error",
        "stage": "evaluate",
        "solver": "packed",
        "kind": "tune",
        "driver": "",
        "operation": "matmul",
        "direction": "",
        "build_machine": "",
        "eval_machine": "gpu7",
        "gpu": "3",
    }
    assert loaded.jobs.counts(by=BY, state=JobState.ABORTED) == []


@ON_SQLITE
@pytest.mark.parametrize("odd", ["reason", "state; DROP TABLE jobs", "", "jobs.state"])
def test_nothing_but_the_known_names_reaches_the_database(loaded: Store, odd: str) -> None:
    with pytest.raises(UsageError, match="choose from label, device, arch"):
        loaded.jobs.counts(by=["state", odd])


@ON_SQLITE
def test_unknown_labels_and_devices_are_refused(loaded: Store) -> None:
    with pytest.raises(UsageError, match="unknown label 'N'"):
        loaded.jobs.counts(label="N")
    with pytest.raises(UsageError, match="did you mean gfx900/56"):
        loaded.jobs.counts(device="gfx906/56")


@ON_SQLITE
def test_live_counts_are_by_state(loaded: Store) -> None:
    assert loaded.queue.live() == {JobState.NEW: 4, JobState.ERROR: 1}
    assert loaded.queue.live("M") == {JobState.NEW: 1}
