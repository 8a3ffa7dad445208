"""Handlers for each kind of job: the study of a round, and what a job keeps of its result."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from skipjack.core import Budget, Candidate, Config, Problem
from skipjack.errors import UsageError, WorkerError
from skipjack.fleet.model import JobKind, PriorResult, Task
from skipjack.fleet.toolchain import toolchain
from skipjack.fleet.work.task_context import TaskContext
from skipjack.interrupt import Interrupt
from skipjack.ledger import CandidateKey, read_facts
from skipjack.operations import parse
from skipjack.solvers import (
    BuildingSolver,
    build_identity,
    find_solver,
    is_known,
    needs_gpu,
    refusal,
    solvers_for,
)
from skipjack.tuning import FindResult, RankedSolver, rank_all
from skipjack.tuning.study import (
    CandidateEvaluator,
    FindStrategy,
    MeasuredRound,
    SearchStrategy,
    StudyRounds,
    TuneOptions,
    TuneResult,
    TuneStrategy,
    VerifyStrategy,
    applicable_solvers,
    buildable_solvers,
    conclude,
)
from skipjack.tuning.study import TuneOutcome as Verdict

log = logging.getLogger(__name__)

Measured = tuple[MeasuredRound[Any], Mapping[str, Any] | None]
"""The result of a round; with the job's result as JSON if it is the last round."""


@dataclass(frozen=True)
class JobHandler(ABC):
    """How jobs of a kind are done. Errors of a job are exceptions."""

    task: Task

    @property
    def fresh(self) -> bool:
        """Whether builds stored on this machine must not be used."""
        return False

    @property
    def options(self) -> TuneOptions:
        """The plan as the options of a study of several solvers."""
        plan = self.task.plan
        budget = Budget(trials=plan.budget)
        return TuneOptions(budget=budget, searcher=plan.searcher, seed=plan.seed)

    @abstractmethod
    def refusal(self, problem: Problem) -> str:
        """Why no solver supports the problem; empty if one does."""

    @abstractmethod
    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        """The solvers whose compilers a builder needs."""

    @abstractmethod
    def strategy(self, problem: Problem) -> SearchStrategy:
        """How the study is run."""

    def at_once(self, problem: Problem) -> int:
        """Maximum number of configs in a round."""
        return self.task.plan.round

    @abstractmethod
    def measure(self, run: StudyRounds) -> Measured:
        """Time the round."""


def handler_of(task: Task) -> JobHandler:
    """The handler for the job of a task."""
    match task.plan.kind:
        case JobKind.TUNE:
            return TuneJob(task)
        case JobKind.FIND:
            return FindJob(task)
        case JobKind.KERNELS:
            return KernelJob(task)


def study_run(
    handler: JobHandler,
    context: TaskContext,
    problem: Problem,
    evaluator: type[CandidateEvaluator],
) -> StudyRounds:
    """The study of a round. Rounds are not interrupted: their worker is ended."""
    strategy = handler.strategy(problem)
    return StudyRounds(context, problem, handler.options, Interrupt(), strategy, evaluator)


def first_of(task: Task) -> tuple[Candidate, ...]:
    """Candidates of the task to try first."""
    if task.plan.kind is JobKind.TUNE:
        return ()
    problem = parse(task.plan.problem)
    return tuple(Candidate(problem, one.solver, Config(one.config)) for one in task.known)


class TuneJob(JobHandler):
    """A tuning, round by round: of one solver, or of all promising ones."""

    @property
    def options(self) -> TuneOptions:
        solver = self.task.plan.solver
        return replace(super().options, solver=None if solver == "auto" else solver)

    def refusal(self, problem: Problem) -> str:
        name = self.options.solver
        if name is not None:
            _building(name)
        try:
            self.solvers(problem)
        except UsageError as error:
            return str(error)
        return ""

    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        return solvers_for(problem, self.task.device, self.options.solver)

    def strategy(self, problem: Problem) -> SearchStrategy:
        return TuneStrategy(self.options.solver)

    def measure(self, run: StudyRounds) -> Measured:
        measured = run.measure(conclude, (), self.task.epoch)
        return measured, _verdict_json(self.task, run, measured)


class FindJob(JobHandler):
    """A find, round by round; good configs of other jobs are tried first."""

    def refusal(self, problem: Problem) -> str:
        if self.solvers(problem):
            return ""
        reason = f"no solver supports {problem.key} on {self.task.device.name}"
        return reason + ("; it is for GPUs only" if needs_gpu(problem, self.task.device) else "")

    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        return buildable_solvers(problem, self.task.device)

    def strategy(self, problem: Problem) -> SearchStrategy:
        return FindStrategy(tuple(self.solvers(problem)))

    def at_once(self, problem: Problem) -> int:
        """The number in the plan, but at least one for each solver."""
        return max(self.task.plan.round, len(self.solvers(problem)))

    def measure(self, run: StudyRounds) -> Measured:
        applicable = applicable_solvers(run.problem, run.context.device)
        finish = partial(rank_all, applicable=applicable)
        measured = run.measure(finish, applicable.vendors, self.task.epoch)
        return measured, _ranking_json(self.task, run, measured)


class KernelJob(JobHandler):
    """Builds, checks and times one config once: the winner of a search, which is to be shipped.

    It was chosen when the task was made; an evaluator finds it in the facts.
    """

    @property
    def fresh(self) -> bool:
        """A job that was started over needs new code."""
        return self.task.epoch > 0

    def refusal(self, problem: Problem) -> str:
        """Why the winner cannot be built any more; empty if it can."""
        solver, known = self._solver(), self._winner()
        if known.solver_version not in (None, solver.version):
            again = "rank its solvers again with skipjack run --find --fresh"
            raise UsageError(
                f"the winner of {problem.key} was found by version {known.solver_version} of "
                f"{solver.name}, which is {solver.version} now; {again}"
            )
        return refusal(solver, problem, self.task.device)

    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        return (self._solver(),)

    def strategy(self, problem: Problem) -> SearchStrategy:
        """A study of the winner's config only."""
        return VerifyStrategy((self._solver(),))

    def at_once(self, problem: Problem) -> int:
        return 1

    def measure(self, run: StudyRounds) -> Measured:
        measured = run.measure(partial(conclude, keep=False), generation=self.task.epoch)
        if measured.result is not None and measured.result.status is Verdict.FAILED:
            raise WorkerError(f"the winner fails now: {measured.result.reason}")
        return measured, _verdict_json(self.task, run, measured)

    def _solver(self) -> BuildingSolver:
        return _building(self._winner().solver)

    def _winner(self) -> PriorResult:
        if self.task.known:
            return self.task.known[0]
        for text in self.task.facts:
            for row in read_facts(text).get("studies", ()):
                return PriorResult(str(row["solver"]), {})
        raise WorkerError(f"the task has no kernel to build for {self.task.plan.problem}")


def _building(name: str) -> BuildingSolver:
    """The solver with this name; `WorkerError` if only another machine may have it."""
    try:
        solver = find_solver(name)
    except UsageError as error:
        raise WorkerError(str(error)) from None
    if not isinstance(solver, BuildingSolver):
        raise UsageError(
            f"solver {name} is a library, which has nothing to build; name another solver"
        )
    return solver


# What a job keeps


def _verdict_json(
    task: Task, run: StudyRounds, measured: MeasuredRound[TuneResult]
) -> dict[str, Any] | None:
    """The job's result of a verdict; None before the last round."""
    result = measured.result
    if result is None:
        return None
    log.info("verdict: %s: %s", result.status.word, result.reason or result.best)
    if result.status is Verdict.FAILED:
        log.warning("no config ran: %s", result.reason)
    timed = [(solver, trial.config) for solver, trial in measured.trials]
    return {
        **result.to_json(),
        "solver_version": find_solver(result.solver).version,
        "toolchain": _toolchain(task, run, [*timed, (result.solver, result.best)]),
        "code": result.code.record() if result.code else None,
    }


def _ranking_json(
    task: Task, run: StudyRounds, measured: MeasuredRound[FindResult]
) -> dict[str, Any] | None:
    """The job's result of a ranking, with its first place in the form of a tuning's verdict."""
    result = measured.result
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
    log.info("ranked: %s", ", ".join(map(_line, result.ranked)) or result.reason)
    timed = [(solver, trial.config) for solver, trial in measured.trials]
    timed += [(one.solver, one.config) for one in result.ranked if is_known(one.solver)]
    return {
        **record,
        **(_first_place(first) if first else {}),
        "toolchain": _toolchain(task, run, timed),
    }


def _first_place(first: RankedSolver) -> dict[str, Any]:
    row = first.to_json()
    kept = {name: row[name] for name in ("solver", "config", "time_ns", "spread")}
    return {**kept, "solver_version": find_solver(first.solver).version}


def _line(one: RankedSolver) -> str:
    return f"{one.solver} {one.time_ns:,.0f} ns" + (" (tie)" if one.tie else "")


def _toolchain(task: Task, run: StudyRounds, timed: Iterable[tuple[str, Config]]) -> str:
    """The toolchain, with the compilers that built these configs."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, config in timed:
        solver = find_solver(name)
        if not isinstance(solver, BuildingSolver):
            continue
        key = CandidateKey.of(Candidate(run.problem, name, config), solver.version)
        identity = build_identity(run.problem, solver, task.device)
        made = run.context.ledger.find_build(key, identity, task.device.compat_key)
        if made is not None and made.compiler:
            found[solver.compiler()].add(made.compiler)
    return toolchain(task.device, found)
