"""Jobs that find: every solver is tried, and ranked beside the libraries of the machine."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from skipjack.core.problem import Problem
from skipjack.fleet.task import Task
from skipjack.fleet.work.context import TaskContext, options_of
from skipjack.fleet.work.course import first_of, never, toolchain_of
from skipjack.solvers import find_solver, for_gpus_alone, names
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.applicable_solvers import applicable_solvers, entrants
from skipjack.tuning.finding import FindResult, RankedSolver, rank_all
from skipjack.tuning.rounds import Sitting, ToldRound, evaluate_round
from skipjack.tuning.strategy import FindStrategy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FindCourse:
    """A find, round by round."""

    task: Task
    fresh = False

    def refusal(self, problem: Problem) -> str:
        """Why there is nobody to rank, if there is nobody."""
        if self.solvers(problem):
            return ""
        reason = f"no solver can do {problem.key} on {self.task.device.name}"
        return reason + (": it is for GPUs" if for_gpus_alone(problem, self.task.device) else "")

    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        """All that can do the problem."""
        return entrants(problem, self.task.device)

    def sitting(self, problem: Problem) -> Sitting:
        """As `skipjack find`, and what did well in other jobs is tried first."""
        strategy = FindStrategy(entrants(problem, self.task.device))
        options = replace(options_of(self.task), solver=None)
        first = first_of(self.task)
        return Sitting(problem, options, strategy, self.task.epoch, first)

    def at_once(self, problem: Problem) -> int:
        """As the plan says, but one for everybody."""
        return max(self.task.plan.round, len(self.solvers(problem)))

    def evaluate(
        self, context: TaskContext, problem: Problem
    ) -> tuple[ToldRound[FindResult], Mapping[str, Any] | None]:
        """Time the round; the result is the ranking."""
        applicable = applicable_solvers(problem, context.device)
        finish = partial(rank_all, applicable=applicable)
        told = evaluate_round(context, self.sitting(problem), never(), finish, applicable.vendors)
        return told, _ranking(self.task, context, told)


def _ranking(
    task: Task, context: TaskContext, told: ToldRound[FindResult]
) -> dict[str, Any] | None:
    """What a job keeps of a ranking: also its first place, as a tuning's verdict has it."""
    result = told.result
    if result is None:
        return None
    record = result.to_json()
    for row in record["solvers"]:
        row["solver_version"] = find_solver(row["solver"]).version if row["time_ns"] else None
    perf = result.perf
    if perf is not None and record["verdict"] is not None:
        code = perf.code.record() if perf.code else None
        version = find_solver(perf.solver).version
        record["verdict"] = {**record["verdict"], "solver_version": version, "code": code}
    first = result.ranked[0] if result.ranked else None
    log.info("ranked: %s", ", ".join(map(_place, result.ranked)) or result.reason)
    timed = [(solver, trial.config) for solver, trial in told.trials]
    timed += [(one.solver, one.config) for one in result.ranked if one.solver in names()]
    return {
        **record,
        **(_winner(first) if first else {}),
        "toolchain": toolchain_of(task, context, timed),
    }


def _winner(first: RankedSolver) -> dict[str, Any]:
    row = first.to_json()
    kept = {name: row[name] for name in ("solver", "config", "time_ns", "spread")}
    return {**kept, "solver_version": find_solver(first.solver).version}


def _place(one: RankedSolver) -> str:
    return f"{one.solver} {one.time_ns:,.0f} ns" + (" (tie)" if one.tie else "")
