"""Times a round's builds where the device is, and computes the verdict when the budget is spent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing

from skipjack.core.protocol import protocol_for
from skipjack.errors import WorkerError
from skipjack.execute.device_lock import slot_lock
from skipjack.execute.session import RunSession
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.work.assignment import DeviceAssignment, assign_cores, assign_gpu
from skipjack.fleet.work.context import TaskContext
from skipjack.fleet.work.job_handlers import handler_of, study_run
from skipjack.fleet.work.miopen_jobs import MiopenJobs
from skipjack.fleet.work.running import line_of_trial, run_task
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.reading import numbered
from skipjack.settings import Settings
from skipjack.tuning.context import timing_cores
from skipjack.tuning.evaluators import RoundTimer

log = logging.getLogger(__name__)


class MeasuringWorker:
    """Keeps a run session warm on cores or a GPU of its own, and holds them while it times."""

    def __init__(self, settings: Settings, cores: Sequence[int] = (), gpu: str = "") -> None:
        self._settings = settings
        self._cores = tuple(cores) or tuple(cpu.usable_cores())
        self._gpu = gpu
        self._session: RunSession | None = None
        self._timed_on: DeviceAssignment | None = None
        self._miopen = MiopenJobs(settings)

    def perform(self, task: Task) -> Outcome:
        return run_task(task, lambda: self._evaluate(task))

    def _evaluate(self, task: Task) -> Outcome:
        device = task.device
        if device.kind == "cpu":
            assigned = assign_cores(device, self._cores_for(device.units))
        else:
            assigned = assign_gpu(device, self._gpu, self._cores)
        with slot_lock(device.kind, assigned.units, log.info):
            if task.plan.by_miopen:
                self._dismiss()  # its program has the GPU's memory to itself
                return self._miopen.evaluate(task, assigned)
            session = self._session_on(assigned)
            context = TaskContext(self._settings, task, device=assigned.device, session=session)
            with closing(context):
                return _measured(task, context)

    def _cores_for(self, units: int) -> tuple[int, ...]:
        if units > len(self._cores):
            raise WorkerError(
                f"{units} threads are asked for, this evaluator has "
                f"{numbered(len(self._cores), 'core')}"
            )
        if len(self._cores) == len(cpu.usable_cores()):
            return tuple(timing_cores(self._settings, units))
        return self._cores[-units:]

    def _session_on(self, assigned: DeviceAssignment) -> RunSession:
        if self._session is None or self._timed_on != assigned:
            self._dismiss()
            protocol = protocol_for(assigned.device)
            self._session = RunSession(protocol, assigned.cores, assigned.gpu or None)
            self._timed_on = assigned
        return self._session

    def _dismiss(self) -> None:
        if self._session:
            self._session.close()
            self._session = None

    def close(self) -> None:
        self._dismiss()
        self._miopen.close()


def _measured(task: Task, context: TaskContext) -> Outcome:
    handler = handler_of(task)
    problem = parse(task.plan.problem)
    with closing(study_run(handler, context, problem, RoundTimer)) as run:
        told, result = handler.measure(run)
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
