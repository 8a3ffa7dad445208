"""Jobs that pack: the winner of a search is built, checked and timed once, to be shipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skipjack.core.problem import Problem
from skipjack.errors import UsageError, WorkerError
from skipjack.fleet.records import Known
from skipjack.fleet.task import Task
from skipjack.fleet.work.context import TaskContext, options_of
from skipjack.fleet.work.course import building, first_of, never
from skipjack.fleet.work.tuning import verdict_of
from skipjack.ledger.facts import read_facts
from skipjack.solvers import refusal
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.result import Outcome as Verdict
from skipjack.tuning.result import TuneResult
from skipjack.tuning.rounds import Sitting, ToldRound, evaluate_round
from skipjack.tuning.strategy import VerifyStrategy
from skipjack.tuning.verdict import verify_only


@dataclass(frozen=True, slots=True)
class KernelCourse:
    """One config, chosen when the task was made; its evaluator finds it in the facts."""

    task: Task

    @property
    def fresh(self) -> bool:
        """A job that was started over wants new code."""
        return self.task.epoch > 0

    def refusal(self, problem: Problem) -> str:
        """Why the winner cannot be built any more, if so."""
        solver = self._solver()
        known = self._winner()
        if known.solver_version not in (None, solver.version):
            again = "skipjack run --find --fresh ranks its solvers again"
            raise UsageError(
                f"the winner of {problem.key} was found by version {known.solver_version} of "
                f"{solver.name}, which is {solver.version} now; {again}"
            )
        return refusal(solver, problem, self.task.device)

    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        """The winner's."""
        return (self._solver(),)

    def sitting(self, problem: Problem) -> Sitting:
        """The winner's config and nothing else."""
        options = replace(options_of(self.task), solver=None)
        first = first_of(self.task)
        return Sitting(problem, options, VerifyStrategy(self._solver()), self.task.epoch, first)

    def at_once(self, problem: Problem) -> int:
        """The one."""
        return 1

    def evaluate(
        self, context: TaskContext, problem: Problem
    ) -> tuple[ToldRound[TuneResult], Mapping[str, Any] | None]:
        """Load, check and time it."""
        told = evaluate_round(context, self.sitting(problem), never(), verify_only)
        if told.result is not None and told.result.status is Verdict.FAILED:
            raise WorkerError(f"the winner fails now: {told.result.reason}")
        return told, verdict_of(self.task, context, told)

    def _solver(self) -> BuildingSolver:
        return building(self._winner().solver)

    def _winner(self) -> Known:
        if self.task.known:
            return self.task.known[0]
        for text in self.task.facts:
            for row in read_facts(text).get("studies", ()):
                return Known(str(row["solver"]), {})
        raise WorkerError(f"nobody says which kernel of {self.task.plan.problem} is to be built")
