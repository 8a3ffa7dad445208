"""A job's rounds, done by workers that share nothing but the task."""

from __future__ import annotations

from dataclasses import replace

from skipjack.fleet.model import JobPlan, JobStage, PriorResult, Task, TaskOutcome
from skipjack.fleet.work import Worker
from skipjack.native import cpu

HERE = cpu.detect()


def plan(problem: str, **options: object) -> JobPlan:
    return replace(JobPlan(problem, HERE.name, budget=6, round=4), **options)  # type: ignore[arg-type]


def through(
    workers: dict[JobStage, Worker],
    plan: JobPlan,
    epoch: int = 0,
    known: tuple[PriorResult, ...] = (),
) -> list[TaskOutcome]:
    """What a coordinator does with a job, up to its verdict."""
    outcomes: list[TaskOutcome] = []
    code: dict[str, bytes] = {}
    for number in range(8):
        for stage in JobStage:
            facts = tuple(outcome.facts for outcome in outcomes)
            needed = outcomes[-1].digests if stage is JobStage.EVALUATE else ()
            artifacts = {digest: code[digest] for digest in needed}
            first = known if stage is JobStage.BUILD and number == 0 else ()
            task = Task(1, stage, plan, HERE, epoch, number, facts, artifacts, known=first)
            outcome = TaskOutcome.of(workers[stage].perform(Task.of(task.message())).message())
            assert not outcome.failed, outcome.failed
            outcomes.append(outcome)
            code |= outcome.artifacts
        if outcome.finished:
            return outcomes
    raise AssertionError("no verdict after 8 rounds")
