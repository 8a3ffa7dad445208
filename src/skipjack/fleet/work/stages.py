"""The two stages of a round: a worker that builds its configs, and one that evaluates them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from skipjack.core import Candidate, Device, Problem, Trial, protocol_for
from skipjack.errors import WorkerError
from skipjack.execute import RunSession, slot_lock
from skipjack.execute.pool import BuildPool
from skipjack.fleet.model import JobStage, Task, TaskOutcome
from skipjack.fleet.work.job_handlers import JobHandler, first_of, handler_of, study_run
from skipjack.fleet.work.miopen_jobs import MiopenJobs, pass_on
from skipjack.fleet.work.task_context import (
    DeviceAssignment,
    TaskContext,
    assign_cores,
    assign_gpu,
    run_task,
    trial_line,
)
from skipjack.ledger import LASTING, Ledger
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.reading import numbered
from skipjack.runtime.local_kernels import keep_within_limit
from skipjack.settings import Settings
from skipjack.solvers import BuildingSolver
from skipjack.solvers.gpu.triton import compilation
from skipjack.storage import KernelStore, user_directory
from skipjack.tuning.study import BuiltRound, RoundBuilder, RoundTimer, timing_cores

# The worker that asks for a round's configs and builds them, for any device.

log = logging.getLogger(__name__)


class BuildingWorker:
    """Keeps a compiler process. Its builds are also stored on this machine, for later tasks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool: BuildPool | None = None
        self._device: Device | None = None
        self._fresh = False
        directory = user_directory(settings)
        self._ledger = Ledger.open(directory)
        self._artifacts = KernelStore(settings)

    def perform(self, task: Task) -> TaskOutcome:
        if task.plan.by_miopen:
            return run_task(task, lambda: pass_on(task))
        return run_task(task, lambda: self._build(task))

    def _build(self, task: Task) -> TaskOutcome:
        problem, handler = parse(task.plan.problem), handler_of(task)
        reason = handler.refusal(problem)
        if reason:
            return TaskOutcome(task.job, JobStage.BUILD, inapplicable=reason)
        _check_compiler(handler.solvers(problem))
        if handler.fresh:
            log.info("compiling again, without earlier builds")
        for text in task.failures:
            self._ledger.add_facts(text)
        pool = self._pool_for(task.device, fresh=handler.fresh)
        with closing(TaskContext(self._settings, task, pool=pool)) as context:
            built = _build_some(context, handler, problem, task)
            self._keep(context)
            if _nothing_to_run(built, task):
                return replace(_nothing_built(task, built.failed), facts=context.facts_of_builds())
            return TaskOutcome(
                task.job,
                JobStage.BUILD,
                facts=context.facts(),
                digests=built.digests,
                artifacts=context.new_artifacts.new,
                trials=len(built.failed),
                failed_trials=len(built.failed),
            )

    def _pool_for(self, device: Device, *, fresh: bool) -> BuildPool:
        """A compiler for the device; a fresh one does not use earlier builds."""
        if self._pool is None or (self._device, self._fresh) != (device, fresh):
            self._close_workers()
            known = None if fresh else user_directory(self._settings)
            self._pool = BuildPool(1, device, known, kernels=self._settings.kernel_dirs)
            self._device, self._fresh = device, fresh
        return self._pool

    def _keep(self, context: TaskContext) -> None:
        """Store builds on this machine, for other problems that lower to the same code."""
        for data in context.new_artifacts.new.values():
            self._artifacts.put(data)
        self._ledger.add_facts(context.facts_of_builds())
        keep_within_limit(self._settings)

    def _close_workers(self) -> None:
        if self._pool:
            self._pool.close()
            self._pool = None

    def close(self) -> None:
        self._close_workers()
        self._ledger.close()


def _check_compiler(solvers: Sequence[BuildingSolver]) -> None:
    """`WorkerError` without a compiler: then no config builds, whatever it is."""
    reason = compilation.missing()
    if reason and all(solver.compiler() == compilation.compiler_name() for solver in solvers):
        raise WorkerError(reason)  # another machine may have it


def _build_some(
    context: TaskContext, handler: JobHandler, problem: Problem, task: Task
) -> BuiltRound:
    """Build a round; if no config of the first round builds, go on with the rest of the budget."""
    done = BuiltRound(0, (), ())
    while True:
        with closing(study_run(handler, context, problem, RoundBuilder)) as run:
            more = run.build(handler.at_once(problem), task.epoch, first_of(task))
        _log_builds(more)
        done = BuiltRound(done.asked + more.asked, (*done.failed, *more.failed), more.digests)
        if not more.failed or not _nothing_to_run(done, task):
            return done


def _nothing_to_run(built: BuiltRound, task: Task) -> bool:
    """Whether all configs failed; a later round has configs that were built before."""
    return task.round == 0 and bool(built.failed) and len(built.failed) == built.asked


def _nothing_built(task: Task, failed: Sequence[tuple[Candidate, Trial]]) -> TaskOutcome:
    """A failure with the most common error."""
    reasons = Counter(f"{trial.status}: {trial.reason}" for _, trial in failed)
    reason, times = reasons.most_common(1)[0]
    return TaskOutcome(
        task.job,
        JobStage.BUILD,
        failed=f"none of {numbered(len(failed), 'config')} could be built; "
        f"most common error ({times} of {len(failed)}): {reason}",
        hopeless=all(trial.status in LASTING for _, trial in failed),
    )


def _log_builds(built: BuiltRound) -> None:
    log.info("%d configs requested, %d built", built.asked, built.asked - len(built.failed))
    for candidate, trial in built.failed:
        log.info("%s", trial_line(candidate.solver, trial))


# The worker that times a round's builds on a device, and computes the verdict at the end.


class MeasuringWorker:
    """Keeps a run session on its own cores or GPU, which are locked during timings."""

    def __init__(self, settings: Settings, cores: Sequence[int] = (), gpu: str = "") -> None:
        self._settings = settings
        self._cores = tuple(cores) or tuple(cpu.usable_cores())
        self._gpu = gpu
        self._session: RunSession | None = None
        self._timed_on: DeviceAssignment | None = None
        self._miopen = MiopenJobs(settings)
        self._used_s = 0.0

    def perform(self, task: Task) -> TaskOutcome:
        self._used_s = 0.0
        outcome = run_task(task, lambda: self._evaluate(task))
        return replace(outcome, device_seconds=self._used_s)

    def _evaluate(self, task: Task) -> TaskOutcome:
        device = task.device
        if device.kind == "cpu":
            assigned = assign_cores(device, self._cores_for(device.units))
        else:
            assigned = assign_gpu(device, self._gpu, self._cores)
        with slot_lock(device.kind, assigned.units, log.info), self._counting():
            if task.plan.by_miopen:
                self._close_workers()  # MIOpen's program needs the GPU's whole memory
                return self._miopen.evaluate(task, assigned)
            session = self._session_on(assigned)
            context = TaskContext(self._settings, task, device=assigned.device, session=session)
            with closing(context):
                return _measured(task, context)

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Count the time in which it has the device."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._used_s += time.monotonic() - began

    def _cores_for(self, units: int) -> tuple[int, ...]:
        if units > len(self._cores):
            raise WorkerError(
                f"{units} threads are required, but this evaluator has "
                f"{numbered(len(self._cores), 'core')}"
            )
        if len(self._cores) == len(cpu.usable_cores()):
            return tuple(timing_cores(self._settings, units))
        return self._cores[-units:]

    def _session_on(self, assigned: DeviceAssignment) -> RunSession:
        if self._session is None or self._timed_on != assigned:
            self._close_workers()
            protocol = protocol_for(assigned.device)
            self._session = RunSession(protocol, assigned.cores, assigned.gpu or None)
            self._timed_on = assigned
        return self._session

    def _close_workers(self) -> None:
        if self._session:
            self._session.close()
            self._session = None

    def close(self) -> None:
        self._close_workers()
        self._miopen.close()


def _measured(task: Task, context: TaskContext) -> TaskOutcome:
    handler = handler_of(task)
    problem = parse(task.plan.problem)
    with closing(study_run(handler, context, problem, RoundTimer)) as run:
        measured, result = handler.measure(run)
    for solver, trial in measured.trials:
        log.info("%s", trial_line(solver, trial))
    return TaskOutcome(
        task.job,
        JobStage.EVALUATE,
        finished=result is not None,
        facts=context.facts(),
        trials=len(measured.trials),
        failed_trials=sum(trial.status.failed for _, trial in measured.trials),
        best_ns=measured.best_ns,
        result=result,
    )
