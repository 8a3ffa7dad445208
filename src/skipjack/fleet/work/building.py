"""Asks for a round's configs and builds them, for any device."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.errors import WorkerError
from skipjack.execute.build_pool import BuildPool
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.work.context import TaskContext
from skipjack.fleet.work.job_handlers import JobHandler, first_of, handler_of, study_run
from skipjack.fleet.work.miopen_jobs import pass_on
from skipjack.fleet.work.running import line_of_trial, run_task
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.reading import numbered
from skipjack.runtime import keep_within_limit
from skipjack.settings import Settings
from skipjack.solvers.gpu import compiling
from skipjack.solvers.solver import BuildingSolver
from skipjack.storage import KernelStore, user_directory
from skipjack.tuning.evaluators import RoundBuilder
from skipjack.tuning.study_run import BuiltRound

log = logging.getLogger(__name__)

_LASTING = (Status.BUILD_ERROR, Status.INFEASIBLE)
"""What a config comes to wherever it is built; a crash or a slow machine may not happen again."""


class BuildingWorker:
    """Keeps a compiler warm. What it builds is also kept on its machine, for the next time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool: BuildPool | None = None
        self._device: Device | None = None
        self._fresh = False
        directory = user_directory(settings)
        self._ledger = Ledger.open(directory)
        self._artifacts = KernelStore(settings)

    def perform(self, task: Task) -> Outcome:
        if task.plan.by_miopen:
            return run_task(task, lambda: pass_on(task))
        return run_task(task, lambda: self._build(task))

    def _build(self, task: Task) -> Outcome:
        problem, handler = parse(task.plan.problem), handler_of(task)
        reason = handler.refusal(problem)
        if reason:
            return Outcome(task.job, Stage.BUILD, inapplicable=reason)
        _check_compiler(handler.solvers(problem))
        if handler.fresh:
            log.info("compiling anew, whatever was built before")
        pool = self._pool_for(task.device, fresh=handler.fresh)
        with closing(TaskContext(self._settings, task, pool=pool)) as context:
            built = _build_some(context, handler, problem, task)
            self._keep(context)
            if _nothing_to_run(built, task):
                return _nothing_built(task, built.failed)
            return Outcome(
                task.job,
                Stage.BUILD,
                facts=context.facts(),
                digests=built.digests,
                artifacts=context.new_artifacts.new,
                trials=len(built.failed),
                failed_trials=len(built.failed),
            )

    def _pool_for(self, device: Device, *, fresh: bool) -> BuildPool:
        """A compiler for the device; a fresh one knows nothing of what was built before."""
        if self._pool is None or (self._device, self._fresh) != (device, fresh):
            self._dismiss()
            known = None if fresh else user_directory(self._settings)
            self._pool = BuildPool(1, device, known, kernels=self._settings.kernel_dirs)
            self._device, self._fresh = device, fresh
        return self._pool

    def _keep(self, context: TaskContext) -> None:
        """Other problems lower to the same code: their builds are found on this machine."""
        for data in context.new_artifacts.new.values():
            self._artifacts.put(data)
        self._ledger.add_facts(context.facts_of_builds())
        keep_within_limit(self._settings)

    def _dismiss(self) -> None:
        if self._pool:
            self._pool.close()
            self._pool = None

    def close(self) -> None:
        self._dismiss()
        self._ledger.close()


def _check_compiler(solvers: Sequence[BuildingSolver]) -> None:
    """Without a compiler no config builds, which says nothing about the configs."""
    reason = compiling.missing()
    if reason and all(solver.compiler() == compiling.compiler_name() for solver in solvers):
        raise WorkerError(reason)  # another machine may have it


def _build_some(
    context: TaskContext, handler: JobHandler, problem: Problem, task: Task
) -> BuiltRound:
    """A round; of a first one none of whose configs builds, what the budget has beyond it, too."""
    done = BuiltRound(0, (), ())
    while True:
        with closing(study_run(handler, context, problem, RoundBuilder)) as run:
            more = run.build(handler.at_once(problem), task.epoch, first_of(task))
        _say(more)
        done = BuiltRound(done.asked + more.asked, (*done.failed, *more.failed), more.digests)
        if not more.failed or not _nothing_to_run(done, task):
            return done


def _nothing_to_run(built: BuiltRound, task: Task) -> bool:
    """Whether all that was ever asked for failed: before a later round, something was built."""
    return task.round == 0 and bool(built.failed) and len(built.failed) == built.asked


def _nothing_built(task: Task, failed: Sequence[tuple[Candidate, Trial]]) -> Outcome:
    """A failure with the most common error."""
    reasons = Counter(f"{trial.status}: {trial.reason}" for _, trial in failed)
    reason, times = reasons.most_common(1)[0]
    return Outcome(
        task.job,
        Stage.BUILD,
        failed=f"none of {numbered(len(failed), 'config')} could be built; "
        f"most common error ({times} of {len(failed)}): {reason}",
        hopeless=all(trial.status in _LASTING for _, trial in failed),
    )


def _say(built: BuiltRound) -> None:
    log.info("%d configs asked, %d built", built.asked, built.asked - len(built.failed))
    for candidate, trial in built.failed:
        log.info("%s", line_of_trial(candidate.solver, trial))
