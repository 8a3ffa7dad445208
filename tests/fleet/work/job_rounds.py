"""A job's rounds, done by workers that share nothing but the task."""

from __future__ import annotations

from dataclasses import replace

from skipjack.fleet.records import Known, Plan
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.work import Worker
from skipjack.native import cpu

HERE = cpu.detect()


def plan(problem: str, **options: object) -> Plan:
    return replace(Plan(problem, HERE.name, budget=6, round=4), **options)  # type: ignore[arg-type]


def through(
    workers: dict[Stage, Worker], plan: Plan, epoch: int = 0, known: tuple[Known, ...] = ()
) -> list[Outcome]:
    """What a coordinator does with a job, up to its verdict."""
    outcomes: list[Outcome] = []
    code: dict[str, bytes] = {}
    for number in range(8):
        for stage in Stage:
            facts = tuple(outcome.facts for outcome in outcomes)
            needed = outcomes[-1].digests if stage is Stage.EVALUATE else ()
            artifacts = {digest: code[digest] for digest in needed}
            first = known if stage is Stage.BUILD and number == 0 else ()
            task = Task(1, stage, plan, HERE, epoch, number, facts, artifacts, known=first)
            outcome = Outcome.of(workers[stage].perform(Task.of(task.message())).message())
            assert not outcome.failed, outcome.failed
            outcomes.append(outcome)
            code |= outcome.artifacts
        if outcome.finished:
            return outcomes
    raise AssertionError("no verdict after 8 rounds")
