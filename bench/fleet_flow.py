"""Jobs with an empty kernel through a real coordinator and store, timed by the jobs' own story."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from sqlalchemy import func, select

from fleet_stand_in import empty_outcome
from skipjack.core import Device
from skipjack.fleet.model import (
    Done,
    Engine,
    Host,
    JobPlan,
    JobStage,
    JobState,
    Label,
    TaskOutcome,
    WorkRequest,
    claim_result_of,
)
from skipjack.fleet.run import Coordinator, RunRequest
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.dialect import engine_for
from skipjack.fleet.store.sql.urls import database_url
from skipjack.interrupt import Interrupt
from skipjack.native import cpu
from skipjack.processes import ProcessIdentity
from skipjack.settings import Settings

_labels = count()


@dataclass(frozen=True, slots=True)
class Flow:
    """What a run of some jobs took, from the first claim to the last result."""

    jobs: int
    seconds: float

    @property
    def jobs_per_s(self) -> float:
        """Through claim, run and result."""
        return self.jobs / self.seconds


class Fleet:
    """A store, and an engine whose workers are ready."""

    def __init__(self, url: str, engine: Engine, settings: Settings) -> None:
        self.store = open_store(url, settings=settings)
        self._engine = engine
        self._url, self._settings = url, settings

    def flow(self, jobs: int, batch: int) -> Flow:
        """Evaluate so many built jobs, claimed and settled up to `batch` at a time."""
        label = built_jobs(self.store, jobs, cpu.detect(1))
        # One batch is worked on while the next one is claimed.
        request = RunRequest(label, (JobStage.EVALUATE,), most_ahead=2 * batch, most_claimed=batch)
        summary = Coordinator(self.store.queue, self._engine, request).run(Interrupt())
        if summary.counts != {JobState.EVALUATED: jobs}:
            raise RuntimeError(f"not all jobs of {label} are evaluated: {dict(summary.counts)}")
        return told_in(self._url, label, self._settings)

    def close(self) -> None:
        """Let go of the store; the engine is another's."""
        self.store.close()


def told_in(url: str, label: str, settings: Settings) -> Flow:
    """How long the label's evaluations took together, as the story of its jobs says."""
    line, job, batch = tables.history.c, tables.jobs.c, tables.labels.c
    lines = (
        select(line.event, func.count(), func.min(line.at), func.max(line.at))
        .join(tables.jobs, job.id == line.job)
        .join(tables.labels, batch.id == job.label)
        .where(batch.name == label, line.before.in_([JobState.BUILT, JobState.EVALUATING]))
        .group_by(line.event)
    )
    reader = engine_for(database_url(url, settings))
    try:
        with reader.connect() as connection:
            events = {row[0]: row for row in connection.execute(lines)}
    finally:
        reader.dispose()
    claimed, told = events["claimed"], events["told"]
    return Flow(told[1], told[3] - claimed[2])


def built_jobs(
    store: Store, jobs: int, device: Device, built: TaskOutcome | None = None, at_once: int = 500
) -> str:
    """A new label with so many jobs, of each of which the same came as of `built`; its name."""
    label = f"bench_{next(_labels)}"
    keys = [f"matmul:{size}x8x8" for size in range(1, jobs + 1)]
    store.problems.add([NewProblem(key, "matmul", "", "f32") for key in keys], "bench")
    store.jobs.add(Label(label, "bench"), [JobPlan(key, device.name) for key in keys])
    machine = store.queue.register(Host("builder", 1, 1 << 30, (device,)), "none")
    owner = store.queue.start_lease(ProcessIdentity("builder", 1), 600.0)
    want = WorkRequest(machine.id, "build", count=at_once)
    while claimed := store.queue.claim(owner, JobStage.BUILD, [want], label=label):
        outcomes = [
            replace(built, job=task.job) if built else empty_outcome(task) for _, task in claimed
        ]
        claim_results = [
            claim_result_of(claim, Done(claim.slot, claim.job, outcome))
            for (claim, _), outcome in zip(claimed, outcomes, strict=True)
        ]
        store.queue.finish(owner, claim_results)
    store.queue.end_lease(owner, "all is built")
    return label
