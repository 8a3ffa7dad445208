"""How jobs of each kind are done: which study a round is of, and what a job keeps of its result."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.study import Budget
from skipjack.core.trial import Candidate
from skipjack.errors import UsageError, WorkerError
from skipjack.fleet.records import JobKind, Known
from skipjack.fleet.task import Task
from skipjack.fleet.toolchain import toolchain
from skipjack.fleet.work.context import TaskContext
from skipjack.interrupt import Interrupt
from skipjack.ledger import CandidateKey, read_facts
from skipjack.operations import parse
from skipjack.solvers import find_solver, for_gpus_alone, is_known, refusal, solvers_for
from skipjack.solvers.identity import build_identity
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.applicable_solvers import applicable_solvers, entrants
from skipjack.tuning.evaluators import CandidateEvaluator
from skipjack.tuning.finding import FindResult, RankedSolver, rank_all
from skipjack.tuning.options import TuneOptions
from skipjack.tuning.result import Outcome as Verdict
from skipjack.tuning.result import TuneResult
from skipjack.tuning.strategy import FindStrategy, SearchStrategy, TuneStrategy, VerifyStrategy
from skipjack.tuning.study_run import MeasuredRound, StudyRun
from skipjack.tuning.verdict import conclude

log = logging.getLogger(__name__)

Measured = tuple[MeasuredRound[Any], Mapping[str, Any] | None]
"""What came of a round; with the job's result in JSON if it is the last one."""


@dataclass(frozen=True)
class JobHandler(ABC):
    """How jobs of a kind are done. What is wrong with a job is an exception, as everywhere."""

    task: Task

    @property
    def fresh(self) -> bool:
        """Whether builds that this machine kept are not to be used."""
        return False

    @property
    def options(self) -> TuneOptions:
        """The plan as the options of a study of several solvers."""
        plan = self.task.plan
        budget = Budget(trials=plan.budget)
        return TuneOptions(budget=budget, searcher=plan.searcher, seed=plan.seed)

    @abstractmethod
    def refusal(self, problem: Problem) -> str:
        """Why there is nothing to do, if no solver can do the problem."""

    @abstractmethod
    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        """Those whose compilers a builder needs."""

    @abstractmethod
    def strategy(self, problem: Problem) -> SearchStrategy:
        """How the study is run."""

    def at_once(self, problem: Problem) -> int:
        """How many configs a round has at most."""
        return self.task.plan.round

    @abstractmethod
    def measure(self, run: StudyRun) -> Measured:
        """Time the round."""


def handler_of(task: Task) -> JobHandler:
    """How the job is to be done."""
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
) -> StudyRun:
    """The study that a round is of. Rounds are not interrupted: their worker is ended."""
    strategy = handler.strategy(problem)
    return StudyRun(context, problem, handler.options, Interrupt(), strategy, evaluator)


def first_of(task: Task) -> tuple[Candidate, ...]:
    """What the task brings to be tried first."""
    if task.plan.kind is JobKind.TUNE:
        return ()
    problem = parse(task.plan.problem)
    return tuple(Candidate(problem, one.solver, Config(one.config)) for one in task.known)


class TuneJob(JobHandler):
    """A tuning, round by round: one solver, or those that promise something."""

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

    def measure(self, run: StudyRun) -> Measured:
        told = run.measure(conclude, (), self.task.epoch)
        return told, _verdict_json(self.task, run, told)


class FindJob(JobHandler):
    """A find, round by round; what did well in other jobs is tried first."""

    def refusal(self, problem: Problem) -> str:
        if self.solvers(problem):
            return ""
        reason = f"no solver can do {problem.key} on {self.task.device.name}"
        return reason + (": it is for GPUs" if for_gpus_alone(problem, self.task.device) else "")

    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        return entrants(problem, self.task.device)

    def strategy(self, problem: Problem) -> SearchStrategy:
        return FindStrategy(tuple(self.solvers(problem)))

    def at_once(self, problem: Problem) -> int:
        """As the plan says, but one for each solver."""
        return max(self.task.plan.round, len(self.solvers(problem)))

    def measure(self, run: StudyRun) -> Measured:
        applicable = applicable_solvers(run.problem, run.context.device)
        finish = partial(rank_all, applicable=applicable)
        told = run.measure(finish, applicable.vendors, self.task.epoch)
        return told, _ranking_json(self.task, run, told)


class KernelJob(JobHandler):
    """One config, the winner of a search, is built, checked and timed once, to be shipped.

    It was chosen when the task was made; who measures finds it in the facts.
    """

    @property
    def fresh(self) -> bool:
        """A job that was started over wants new code."""
        return self.task.epoch > 0

    def refusal(self, problem: Problem) -> str:
        """Why the winner cannot be built any more, if so."""
        solver, known = self._solver(), self._winner()
        if known.solver_version not in (None, solver.version):
            again = "skipjack run --find --fresh ranks its solvers again"
            raise UsageError(
                f"the winner of {problem.key} was found by version {known.solver_version} of "
                f"{solver.name}, which is {solver.version} now; {again}"
            )
        return refusal(solver, problem, self.task.device)

    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        return (self._solver(),)

    def strategy(self, problem: Problem) -> SearchStrategy:
        """The winner's config and nothing else."""
        return VerifyStrategy((self._solver(),))

    def at_once(self, problem: Problem) -> int:
        return 1

    def measure(self, run: StudyRun) -> Measured:
        told = run.measure(partial(conclude, keep=False), generation=self.task.epoch)
        if told.result is not None and told.result.status is Verdict.FAILED:
            raise WorkerError(f"the winner fails now: {told.result.reason}")
        return told, _verdict_json(self.task, run, told)

    def _solver(self) -> BuildingSolver:
        return _building(self._winner().solver)

    def _winner(self) -> Known:
        if self.task.known:
            return self.task.known[0]
        for text in self.task.facts:
            for row in read_facts(text).get("studies", ()):
                return Known(str(row["solver"]), {})
        raise WorkerError(f"the task names no kernel to build for {self.task.plan.problem}")


def _building(name: str) -> BuildingSolver:
    """The solver of this name; another machine may have it if it is not here."""
    try:
        solver = find_solver(name)
    except UsageError as error:
        raise WorkerError(str(error)) from None
    if not isinstance(solver, BuildingSolver):
        raise UsageError(f"solver {name} is a library: there is nothing to build")
    return solver


# What a job keeps


def _verdict_json(
    task: Task, run: StudyRun, told: MeasuredRound[TuneResult]
) -> dict[str, Any] | None:
    """Of a verdict, if it is spoken."""
    result = told.result
    if result is None:
        return None
    log.info("verdict: %s: %s", result.status.word, result.reason or result.best)
    if result.status is Verdict.FAILED:
        log.warning("no config ran: %s", result.reason)
    timed = [(solver, trial.config) for solver, trial in told.trials]
    return {
        **result.to_json(),
        "solver_version": find_solver(result.solver).version,
        "toolchain": _toolchain(task, run, [*timed, (result.solver, result.best)]),
        "code": result.code.record() if result.code else None,
    }


def _ranking_json(
    task: Task, run: StudyRun, told: MeasuredRound[FindResult]
) -> dict[str, Any] | None:
    """Of a ranking: also its first place, as a tuning's verdict has it."""
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
    log.info("ranked: %s", ", ".join(map(_line, result.ranked)) or result.reason)
    timed = [(solver, trial.config) for solver, trial in told.trials]
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


def _toolchain(task: Task, run: StudyRun, timed: Iterable[tuple[str, Config]]) -> str:
    """The toolchain, with what compiled these configs, by the name of that compiler here."""
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
