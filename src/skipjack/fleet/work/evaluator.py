"""Times a round's builds where the device is, and speaks the verdict when the budget is spent."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from skipjack.errors import WorkerError
from skipjack.execute.device_lock import slot_lock
from skipjack.execute.session import RunSession
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.work.context import TaskContext
from skipjack.fleet.work.course import course_of
from skipjack.fleet.work.miopen_jobs import MiopenJobs
from skipjack.fleet.work.seating import Seating, seat_on_cores, seat_on_gpu
from skipjack.fleet.work.telling import line_of_trial, performing
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.settings import Settings
from skipjack.tuning.context import protocol_for, timing_cores
from skipjack.tuning.rounds import ToldRound

log = logging.getLogger(__name__)


class Evaluator:
    """Keeps a run session warm on cores or a GPU of its own, and holds them while it times."""

    def __init__(self, settings: Settings, cores: Sequence[int] = (), gpu: str = "") -> None:
        self._settings = settings
        self._cores = tuple(cores) or tuple(cpu.usable_cores())
        self._gpu = gpu
        self._session: RunSession | None = None
        self._timed_on: Seating | None = None
        self._miopen = MiopenJobs(settings)

    def perform(self, task: Task) -> Outcome:
        """Evaluate a round."""
        return performing(task, lambda: self._evaluate(task))

    def _evaluate(self, task: Task) -> Outcome:
        device = task.device
        if device.kind == "cpu":
            seating = seat_on_cores(device, self._cores_for(device.units))
        else:
            seating = seat_on_gpu(device, self._gpu, self._cores)
        with slot_lock(device.kind, seating.units, log.info):
            if task.plan.by_miopen:
                self._dismiss()  # its program has the GPU's memory to itself
                return self._miopen.evaluate(task, seating)
            session = self._session_on(seating)
            context = TaskContext(self._settings, task, device=seating.device, session=session)
            try:
                told, result = course_of(task).evaluate(context, parse(task.plan.problem))
                return _outcome(task, context, told, result)
            finally:
                context.close()

    def _cores_for(self, units: int) -> tuple[int, ...]:
        if units > len(self._cores):
            raise WorkerError(
                f"{units} threads are asked for, this evaluator has {len(self._cores)} cores"
            )
        if len(self._cores) == len(cpu.usable_cores()):
            return tuple(timing_cores(self._settings, units))
        return self._cores[-units:]

    def _session_on(self, seating: Seating) -> RunSession:
        if self._session is None or self._timed_on != seating:
            self._dismiss()
            protocol = protocol_for(seating.device)
            self._session = RunSession(protocol, seating.cores, seating.gpu or None)
            self._timed_on = seating
        return self._session

    def _dismiss(self) -> None:
        if self._session:
            self._session.close()
            self._session = None

    def close(self) -> None:
        """End the session."""
        self._dismiss()
        self._miopen.close()


def _outcome(
    task: Task, context: TaskContext, told: ToldRound[Any], result: Mapping[str, Any] | None
) -> Outcome:
    for solver, trial in told.trials:
        log.info("%s", line_of_trial(solver, trial))
    return Outcome(
        task.job,
        Stage.EVALUATE,
        finished=result is not None,
        facts=context.facts(),
        trials=len(told.trials),
        failed_trials=sum(trial.status.failed for _, trial in told.trials),
        best_ns=told.best_ns,
        result=result,
    )
