"""Jobs in the store: added once, and read with their history, logs and facts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from crew import found_out, words_of
from sqlalchemy import insert, select, update

from skipjack.core import Device
from skipjack.errors import UsageError
from skipjack.fleet.model import Host, JobPlan, JobStage, JobState, JobStatus, Label
from skipjack.fleet.store import AddedJobs, LogText, NewProblem, Store
from skipjack.fleet.store.catalog import devices
from skipjack.fleet.store.jobs import facts
from skipjack.fleet.store.schema import tables

ON_SQLITE = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""Where all databases are asked the same."""

KEYS = ["matmul:8x8x8:f32", "matmul:16x16x16:f32"]
LABEL = Label("L", "ann")
PLANS = [
    JobPlan(KEYS[0], "znver4/1"),
    JobPlan(KEYS[0], "gfx900/56", "auto", "genetic", 7, 100, 10),
    JobPlan(KEYS[1], "znver4/1", "packed"),
]


@pytest.fixture
def loaded(store: Store) -> Store:
    store.problems.add([NewProblem(key, "matmul", "", "f32") for key in KEYS], "t")
    assert store.jobs.add(LABEL, PLANS, priority=3) == AddedJobs(3, 0)
    return store


def evaluated(store: Store, job: int, epoch: int = 0, toolchain: str = "one") -> None:
    """As an evaluator leaves a job behind after two rounds."""
    machine = store.queue.register(Host("gpu7", 4, 1 << 30), "local").id
    done = {"digests": "[]", "trials": 1, "failed_trials": 0, "attempt": 1, "created": 1.0}
    with store.database.engine.begin() as connection:
        for number in (0, 1):
            for stage in (JobStage.EVALUATE, JobStage.BUILD):
                row = {"job": job, "epoch": epoch, "round": number, "stage": str(stage), **done}
                found = found_out(f"{epoch}.{number} {stage}")
                row["ledger_rows"] = facts.counted(found)
                connection.execute(insert(tables.rounds).values(**row))
                facts.write(connection, [(row, found)])
        result = {"state": "evaluated", "result": json.dumps({"outcome": "banked"})}
        found = {"eval_machine": machine, "gpu": "cpu1", "best_ns": 12.5, "toolchain": toolchain}
        changes = update(tables.jobs).where(tables.jobs.c.id == job)
        connection.execute(changes.values(**result, **found, epoch=epoch))


def test_a_label_has_one_job_for_a_problem_a_device_and_a_solver(loaded: Store) -> None:
    again = [replace(PLANS[0], budget=5), replace(PLANS[0], solver="nest")]
    assert loaded.jobs.add(LABEL, again) == AddedJobs(1, 1)
    assert loaded.jobs.add(replace(LABEL, name="M"), PLANS) == AddedJobs(3, 0)
    assert loaded.labels.plans("L") == [*PLANS, again[1]]


@ON_SQLITE
def test_jobs_are_read_back_as_they_were_planned(loaded: Store) -> None:
    jobs = loaded.jobs.find(label="L")
    assert [job.plan for job in jobs] == PLANS
    assert {(job.label, job.priority, job.status) for job in jobs} == {("L", 3, JobStatus())}
    assert loaded.jobs.get(jobs[1].id) == jobs[1]
    assert [job.plan.device for job in loaded.jobs.find(device="gfx900/56")] == ["gfx900/56"]
    assert loaded.jobs.find(state=JobState.ERROR) == []
    assert loaded.jobs.find(limit=2) == jobs[:2]


@ON_SQLITE
def test_what_is_not_there_is_refused_by_name(loaded: Store) -> None:
    for ask in (loaded.jobs.get, loaded.jobs.history, loaded.jobs.log):
        with pytest.raises(UsageError, match="there is no job 4711"):
            ask(4711)
    with pytest.raises(UsageError, match="'znver5/1': did you mean znver4/1"):
        loaded.jobs.find(device="znver5/1")
    with pytest.raises(UsageError, match="does not know relu:4:f32; import it first"):
        loaded.jobs.add(Label("N", "ann"), [*PLANS, JobPlan("relu:4:f32", "znver4/1")])
    assert [summary.label.name for summary in loaded.labels.all()] == ["L"], "all or nothing"


@ON_SQLITE
@pytest.mark.parametrize("odd", [{"budget": 0}, {"round": 0}, {"seed": -1}, {"seed": 2**31}])
def test_a_plan_that_no_column_holds_is_refused(store: Store, odd: dict[str, int]) -> None:
    store.problems.add([NewProblem(KEYS[0], "matmul")], "t")
    with pytest.raises(UsageError):
        store.jobs.add(LABEL, [replace(PLANS[0], **odd)])  # type: ignore[arg-type]


def test_results_are_those_of_the_last_epoch_in_the_order_they_were_found(loaded: Store) -> None:
    job = loaded.jobs.find()[0].id
    evaluated(loaded, job)
    evaluated(loaded, job, epoch=1)
    (result,) = loaded.results.jobs("L")
    expected = ("1.0 build", "1.0 evaluate", "1.1 build", "1.1 evaluate")
    assert words_of(result.facts) == expected
    assert result.job == loaded.jobs.get(job)
    assert (result.job.eval_machine, result.job.gpu) == ("gpu7", "cpu1")
    assert (result.job.result, result.job.best_ns) == ({"outcome": "banked"}, 12.5)


@ON_SQLITE
def test_a_result_is_stale_on_other_devices_and_for_other_toolchains(loaded: Store) -> None:
    with loaded.database.engine.connect() as connection:
        ids = list(connection.execute(select(tables.problems.c.id)).scalars())
    job = next(job for job in loaded.jobs.find() if job.plan == PLANS[0])
    zen, wider = (Device("cpu", "znver4", 1, "a real one", vector_bytes=n) for n in (32, 64))
    with loaded.database.engine.begin() as connection:
        devices.bind_unbound(connection, [zen], None)
    assert loaded.jobs.stale(zen, "one", ids) == set(ids)
    evaluated(loaded, job.id)
    (known,) = set(ids) - loaded.jobs.stale(zen, "one", ids)
    assert loaded.jobs.stale(zen, "two", ids) == set(ids)
    assert loaded.jobs.stale(wider, "one", ids) == set(ids)
    assert loaded.jobs.stale(Device("hip", "gfx900", 56), "one", ids) == set(ids)
    assert loaded.jobs.stale(zen, "one", [known]) == set()


def test_stories_and_logs_are_in_order_with_the_machines_names(loaded: Store) -> None:
    first, second, _ = (job.id for job in loaded.jobs.find())
    machine = loaded.queue.register(Host("gpu7", 4, 1 << 30), "local").id
    place = {"epoch": 0, "round": 1, "attempt": 2, "machine": machine}
    with loaded.database.engine.begin() as connection:
        for text in ("compiling", "done"):
            row = {"job": second, "stage": "build", "text": text, "created": 0.5, **place}
            connection.execute(insert(tables.logs).values(**row))
        for event, before, after in (
            ("claimed", "new", "building"),
            ("built", "building", "built"),
        ):
            row = {"job": second, "at": 1.5, "event": event, "before": before, "after": after}
            connection.execute(insert(tables.history).values(**row, **place, reason=""))
    at = "1970-01-01T00:00:00.500000Z"
    assert loaded.jobs.log(second) == [
        LogText(JobStage.BUILD, 0, 1, 2, "gpu7", at, text) for text in ("compiling", "done")
    ]
    lines = loaded.jobs.history(second)
    assert [(line.number, line.event, line.after, line.machine) for line in lines] == [
        (1, "claimed", "building", "gpu7"),
        (2, "built", "built", "gpu7"),
    ]
    assert loaded.jobs.log(first) == []
    assert loaded.jobs.history(first) == []


@ON_SQLITE
def test_a_device_is_known_once_a_real_one_was_seen(loaded: Store) -> None:
    assert loaded.machines.known_device("znver4/1") is None
    real = Device("cpu", "znver4", 1, "a real one", ("avx2",), caches=(("L1", 1),))
    loaded.queue.register(Host("here", 1, 1, (real,)), "local")
    assert loaded.machines.known_device("znver4/1") == real
