"""A run with a budget of device time: jobs get rounds where the expected gain is largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skipjack.core import Problem
from skipjack.errors import SkipjackError
from skipjack.fleet.model import (
    SLICE_TRIALS,
    Claim,
    Engine,
    JobProgress,
    JobStage,
    SliceChoice,
    StageRequest,
    Task,
    choose_slices,
)
from skipjack.fleet.run.coordinator import Coordinator
from skipjack.fleet.run.queue_interface import JobQueue
from skipjack.fleet.run.requests import RunRequest
from skipjack.operations import bytes_moved, get, parse


class BudgetedCoordinator(Coordinator):
    """Spends the device-seconds of a label; any number of them share the budget.

    The store has the budget and what was used of it, so that a run that is killed loses nothing.
    """

    def __init__(self, queue: JobQueue, engine: Engine, request: RunRequest) -> None:
        super().__init__(queue, engine, request)
        self._sizes: dict[int, float] = {}
        self._rate = queue.usual_rate(request.label)

    def _most_ahead(self, stage: JobStage) -> int:
        # A round is chosen as late as possible, and an evaluator with several jobs would leave open
        # which one used the device.
        return 1

    def _stage_requests(self) -> list[StageRequest]:
        """Requests for the jobs that the budget is to be spent on."""
        limited = []
        for one in super()._stage_requests():
            jobs = self._begun() if one.stage is JobStage.EVALUATE else self._next(one)
            if jobs is None or jobs:
                limited.append(replace(one, jobs=jobs))
            else:
                self._found_nothing.add(one.stage)
        return limited

    def _begun(self) -> tuple[int, ...] | None:
        """Once the budget is spent, only the jobs that are to end; before, any that are built."""
        label = self._request.label
        if self._queue.device_seconds_left(label) > 0.0:
            return None
        return tuple(self._queue.ending(label))

    def _next(self, request: StageRequest) -> tuple[int, ...]:
        """The jobs to build for: further rounds, or verdicts if there is no time for a round."""
        label, devices = self._request.label, self._request.devices or self._built_for()
        jobs, budget, keys = self._queue.slice_progress(label, devices)
        known = [replace(one, size=self._size(one.id, keys[one.id])) for one in jobs]
        count, ahead = len(request.requests), 0
        if JobStage.EVALUATE in self._request.stages:
            known, idle, others = self._for_evaluators(known)
            coming = sum(one.coming for one in known)
            wanted = max(0, idle - coming)
            ahead = max(
                0, min(count - wanted, others + self._evaluating() + idle - coming - wanted)
            )
            count = min(count, wanted)
        choice = choose_slices(known, replace(budget, rate=self._rate), count, ahead)
        return self._prepared(choice)

    def _for_evaluators(self, jobs: Sequence[JobProgress]) -> tuple[list[JobProgress], int, int]:
        """Jobs that our evaluators can do, how many of these are idle, and how many others work.

        Jobs of other devices are left to the runs that have them; their rounds in work stay.
        """
        here = [one for one in self._engine.slots() if self._may_work(one, JobStage.EVALUATE)]
        names = {device.name for slot in here for device in slot.devices}
        ours = [one for one in jobs if one.device in names or one.evaluating]
        theirs = [
            replace(one, evaluating=True)  # in work, and nothing that our evaluators wait for
            for one in jobs
            if one.device not in names and one.coming
        ]
        evaluating = sum(one.evaluating and one.device in names for one in jobs)
        mine = self._evaluating()
        return [*ours, *theirs], max(0, len(here) - mine), max(0, evaluating - mine)

    def _evaluating(self) -> int:
        return sum(claim.stage is JobStage.EVALUATE for claim in self._held.values())

    def _prepared(self, choice: SliceChoice) -> tuple[int, ...]:
        jobs = choice.slices or choice.verdicts
        if jobs:
            self._queue.begin_slices(choice.slices, choice.verdicts)
        return jobs

    def _hand_out(self, claimed: Sequence[tuple[Claim, Task]]) -> None:
        super()._hand_out([(claim, _short(task)) for claim, task in claimed])

    def _size(self, job: int, key: str) -> float:
        """An estimate of the time of a call, from the work of its problem."""
        if job not in self._sizes:
            try:
                self._sizes[job] = _work_of(parse(key))
            except SkipjackError:
                self._sizes[job] = 1.0
        return self._sizes[job]


def _work_of(problem: Problem) -> float:
    flops, moved = get(problem.operation).flops(problem), bytes_moved(problem)
    return max(float(flops) / _FLOPS_PER_BYTE, float(moved), 1.0)


_FLOPS_PER_BYTE = 4.0
"""Between what CPUs and GPUs compute in the time of moving a byte."""


def _short(task: Task) -> Task:
    """The task of a slice."""
    if task.stage is not JobStage.BUILD:
        return task
    return replace(task, plan=replace(task.plan, round=min(task.plan.round, SLICE_TRIALS)))
