"""Jobs that tune: one solver, or those that promise something, race for the first place."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.fleet.task import Task
from skipjack.fleet.work.context import TaskContext, options_of
from skipjack.fleet.work.course import building, never, toolchain_of
from skipjack.solvers import find_solver, solvers_for
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.result import Outcome as Verdict
from skipjack.tuning.result import TuneResult
from skipjack.tuning.rounds import Sitting, ToldRound, evaluate_round
from skipjack.tuning.strategy import TuneStrategy
from skipjack.tuning.study_run import StudyRun
from skipjack.tuning.verdict import conclude, finish_tuning

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TuneCourse:
    """A tuning, round by round."""

    task: Task
    fresh = False

    def refusal(self, problem: Problem) -> str:
        """Why no solver takes part, if none does."""
        name = options_of(self.task).solver
        if name is not None:
            building(name)
        try:
            solvers_for(problem, self.task.device, name)
        except UsageError as error:
            return str(error)
        return ""

    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        """Those that race."""
        return solvers_for(problem, self.task.device, options_of(self.task).solver)

    def sitting(self, problem: Problem) -> Sitting:
        """As `skipjack tune`."""
        options = options_of(self.task)
        return Sitting(problem, options, TuneStrategy(options.solver), self.task.epoch)

    def at_once(self, problem: Problem) -> int:
        """As the plan says."""
        return self.task.plan.round

    def evaluate(
        self, context: TaskContext, problem: Problem
    ) -> tuple[ToldRound[TuneResult], Mapping[str, Any] | None]:
        """Time the round; the result is the verdict."""
        told = evaluate_round(context, self.sitting(problem), never(), _conclude)
        return told, verdict_of(self.task, context, told)


def _conclude(run: StudyRun) -> TuneResult:
    return conclude(run, finish_tuning(run))


def verdict_of(
    task: Task, context: TaskContext, told: ToldRound[TuneResult]
) -> dict[str, Any] | None:
    """What a job keeps of its verdict, if it is spoken."""
    result = told.result
    if result is None:
        return None
    log.info("verdict: %s %s", result.status, result.reason or result.best)
    if result.status is Verdict.FAILED:
        log.warning("no config ran: %s", result.reason)
    timed = [(solver, trial.config) for solver, trial in told.trials]
    return {
        **result.to_json(),
        "solver_version": find_solver(result.solver).version,
        "toolchain": toolchain_of(task, context, [*timed, (result.solver, result.best)]),
        "code": result.code.record() if result.code else None,
    }
