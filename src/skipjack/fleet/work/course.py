"""What the kind of a job decides about the work on it; a small class for each kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.trial import Candidate
from skipjack.errors import UsageError, WorkerError
from skipjack.fleet.records import JobKind
from skipjack.fleet.task import Task
from skipjack.fleet.toolchain import toolchain
from skipjack.fleet.work.context import TaskContext
from skipjack.interrupt import Interrupt
from skipjack.ledger import CandidateKey
from skipjack.operations import parse
from skipjack.solvers import find_solver
from skipjack.solvers.identity import build_identity
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.rounds import Sitting, ToldRound


class Course(Protocol):
    """How jobs of a kind are done. What is wrong with a job is an exception, as everywhere."""

    @property
    def fresh(self) -> bool:
        """Whether builds that this machine kept are not to be used."""
        ...

    def refusal(self, problem: Problem) -> str:
        """Why there is nothing to do, if no solver can do the problem."""
        ...

    def solvers(self, problem: Problem) -> Sequence[BuildingSolver]:
        """Whose compilers a builder needs."""
        ...

    def sitting(self, problem: Problem) -> Sitting:
        """The search that the round is of."""
        ...

    def at_once(self, problem: Problem) -> int:
        """How many configs a round has at most."""
        ...

    def evaluate(
        self, context: TaskContext, problem: Problem
    ) -> tuple[ToldRound[Any], Mapping[str, Any] | None]:
        """Time the round; with the job's result in JSON if it is the last one."""
        ...


def course_of(task: Task) -> Course:
    """How the job is to be done."""
    from skipjack.fleet.work.finding import FindCourse
    from skipjack.fleet.work.packing import KernelCourse
    from skipjack.fleet.work.tuning import TuneCourse

    courses: dict[JobKind, Callable[[Task], Course]] = {
        JobKind.TUNE: TuneCourse,
        JobKind.FIND: FindCourse,
        JobKind.KERNELS: KernelCourse,
    }
    return courses[JobKind.of(task.plan.solver)](task)


def never() -> Interrupt:
    """Rounds are not interrupted: their worker is ended."""
    return Interrupt()


def first_of(task: Task) -> tuple[Candidate, ...]:
    """What the task brings to be tried first."""
    problem = parse(task.plan.problem)
    return tuple(Candidate(problem, one.solver, Config(one.config)) for one in task.known)


def building(name: str) -> BuildingSolver:
    """The solver of this name; another machine may have it if it is not here."""
    try:
        solver = find_solver(name)
    except UsageError as error:
        raise WorkerError(str(error)) from None
    if not isinstance(solver, BuildingSolver):
        raise UsageError(f"solver {name} is a library: there is nothing to build")
    return solver


def toolchain_of(task: Task, context: TaskContext, timed: Iterable[tuple[str, Config]]) -> str:
    """The toolchain, with what compiled these configs, by the name of that compiler here."""
    problem = parse(task.plan.problem)
    found: dict[str, set[str]] = defaultdict(set)
    for name, config in timed:
        solver = find_solver(name)
        if not isinstance(solver, BuildingSolver):
            continue
        key = CandidateKey.of(Candidate(problem, name, config), solver.version)
        identity = build_identity(problem, solver, task.device)
        made = context.ledger.find_build(key, identity, task.device.compat_key)
        if made is not None and made.compiler:
            found[solver.compiler()].add(made.compiler)
    return toolchain(task.device, found)
