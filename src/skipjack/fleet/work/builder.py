"""Asks for a round's configs and builds them, for any device."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.errors import UsageError, WorkerError
from skipjack.execute.build_pool import BuildPool
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.work.shop import TaskShop, options_of
from skipjack.fleet.work.telling import line_of_trial, performing
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.settings import Settings
from skipjack.solvers import find_solver, solvers_for
from skipjack.solvers.gpu import compiling
from skipjack.storage import ARTIFACTS, ArtifactStore, user_directory
from skipjack.tuning.rounds import BuiltRound, build_round

log = logging.getLogger(__name__)

_LASTING = (Status.BUILD_ERROR, Status.INFEASIBLE)
"""What a config comes to wherever it is built; a crash or a slow machine may not happen again."""


class Builder:
    """Keeps a compiler warm. What it builds is also kept on its machine, for the next time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool: BuildPool | None = None
        self._device: Device | None = None
        directory = user_directory(settings)
        self._ledger = Ledger.open(directory)
        self._artifacts = ArtifactStore(directory / ARTIFACTS)

    def perform(self, task: Task) -> Outcome:
        """Build a round."""
        return performing(task, lambda: self._build(task))

    def _build(self, task: Task) -> Outcome:
        problem = parse(task.plan.problem)
        reason = _inapplicable(problem, task)
        if reason:
            return Outcome(task.job, Stage.BUILD, inapplicable=reason)
        _check_compiler(problem, task)
        pool = self._pool_for(task.device)
        shop = TaskShop(self._settings, task, pool=pool)
        try:
            built = _build_some(shop, problem, task)
            self._keep(shop)
            if _nothing_to_run(built, task):
                return _nothing_built(task, built.failed)
            return Outcome(
                task.job,
                Stage.BUILD,
                facts=shop.facts(),
                digests=built.digests,
                artifacts=shop.new_artifacts.new,
                trials=len(built.failed),
                failed_trials=len(built.failed),
            )
        finally:
            shop.close()

    def _pool_for(self, device: Device) -> BuildPool:
        if self._pool is None or self._device != device:
            self._dismiss()
            self._pool = BuildPool(1, device, user_directory(self._settings))
            self._device = device
        return self._pool

    def _keep(self, shop: TaskShop) -> None:
        """Other problems lower to the same code: their builds are found on this machine."""
        for data in shop.new_artifacts.new.values():
            self._artifacts.put(data)
        self._ledger.add_facts(shop.facts_of_builds())

    def _dismiss(self) -> None:
        if self._pool:
            self._pool.close()
            self._pool = None

    def close(self) -> None:
        """End the compiler."""
        self._dismiss()
        self._ledger.close()


def _inapplicable(problem: Problem, task: Task) -> str:
    """Why no solver takes part, if none does."""
    name = options_of(task).solver
    if name is not None:
        try:
            find_solver(name)
        except UsageError as error:  # a plug-in that this machine lacks; another may have it
            raise WorkerError(str(error)) from None
    try:
        solvers_for(problem, task.device, name)
    except UsageError as error:
        return str(error)
    return ""


def _check_compiler(problem: Problem, task: Task) -> None:
    """Without a compiler no config builds, which says nothing about the configs."""
    solvers = solvers_for(problem, task.device, options_of(task).solver)
    reason = compiling.missing()
    if reason and all(solver.compiler() == compiling.compiler_name() for solver in solvers):
        raise WorkerError(reason)  # another machine may have it


def _build_some(shop: TaskShop, problem: Problem, task: Task) -> BuiltRound:
    """A round; of a first one none of whose configs builds, what the budget has beyond it, too."""
    done = BuiltRound(0, (), ())
    while True:
        more = build_round(shop, problem, options_of(task), task.plan.round, task.epoch)
        _say(more)
        done = BuiltRound(done.asked + more.asked, (*done.failed, *more.failed), more.digests)
        if not more.failed or not _nothing_to_run(done, task):
            return done


def _nothing_to_run(built: BuiltRound, task: Task) -> bool:
    """Whether all that was ever asked for failed: before a later round, something was built."""
    return task.round == 0 and bool(built.failed) and not built.digests


def _nothing_built(task: Task, failed: Sequence[tuple[Candidate, Trial]]) -> Outcome:
    """An error that says what most of them failed for."""
    reasons = Counter(f"{trial.status}: {trial.reason}" for _, trial in failed)
    reason, times = reasons.most_common(1)[0]
    return Outcome(
        task.job,
        Stage.BUILD,
        failed=f"none of {len(failed)} configs could be built; {times} for this: {reason}",
        hopeless=all(trial.status in _LASTING for _, trial in failed),
    )


def _say(built: BuiltRound) -> None:
    log.info("%d configs asked, %d built", built.asked, built.asked - len(built.failed))
    for candidate, trial in built.failed:
        log.info("%s", line_of_trial(candidate.solver, trial))
