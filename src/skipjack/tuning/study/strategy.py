"""What makes a study a tuning, a find or the check of known configs.

A strategy says which solvers take part, which is asked next and for how long; `applicable_solvers`
are those that can solve a problem on a device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from skipjack.core import Budget, Candidate, Config, Device, Problem, Promising, Space, Trial
from skipjack.errors import UsageError, foreign_code
from skipjack.solvers import (
    BuildingSolver,
    DrivingSolver,
    Solver,
    all_solvers,
    building_solvers,
    driver_refusal,
    find_solver,
    pinned_solvers,
    refusal,
    solvers_for,
    supports_device,
    vendors_for,
)
from skipjack.tuning.study.limits import Limits
from skipjack.tuning.study.options import TimeLimit
from skipjack.tuning.study.solver_search import SolverSearch, in_turn, nearness

if TYPE_CHECKING:
    from skipjack.tuning.study.engine import Evaluator


# What makes a study a tuning, a find or a check: which solvers are asked, and for how long.

Known = Sequence[tuple[SolverSearch, Trial]]
"""Trials of earlier study runs."""
Turns = list[tuple[SolverSearch, int]]
"""Searches in the order in which they are asked, each with the most it may ask."""


def led_before(
    searches: Sequence[SolverSearch], strategy: SearchStrategy, default: Candidate | None
) -> list[Candidate]:
    """Candidates of earlier runs that are timed again: the default and the leaders."""
    known = [(search, trial) for search in searches for trial in search.known]
    tried = {search.candidate(trial.config) for search, trial in known}
    return [*([default] if default in tried else []), *strategy.again(known)]


class SearchStrategy(Protocol):
    """How a study is run. Pure: searches and evaluator are read and not changed."""

    prune_slow: bool
    """Whether the evaluator spends little time on candidates that are slow and far behind."""
    skip_failing_solvers: bool
    """Whether the study continues without a solver that raises an error; else it ends."""
    compares: bool
    """Whether the default is timed, so that there is a gain over it."""

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """The solvers that take part."""

    def again(self, known: Known) -> list[Candidate]:
        """Candidates of earlier runs that are timed again, before all others."""

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        """The largest number of trials; None if there is no limit."""

    def turns(self, searches: Sequence[SolverSearch], pace_ns: float, *, unseen: bool) -> Turns:
        """Whose turn it is; `unseen` if no result is returned before all are asked for."""

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        """Whether the search may end if its time is short."""

    def final_s(self, evaluator: Evaluator) -> float:
        """How long the final will take, at least."""


@dataclass(frozen=True, slots=True)
class TuneStrategy:
    """A tuning: the promising solvers compete for the first place."""

    solver: str | None = None
    """The only solver that takes part, if one is named."""
    limits: Limits = field(default_factory=Limits)
    pins: Mapping[str, str] = field(default_factory=dict)
    """Settings that all configs must have."""
    prune_slow = False
    skip_failing_solvers = False
    compares = True

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """The named solver, or the promising ones, the most promising first."""
        return pinned_solvers(problem, device, self.pins, self.solver)

    def again(self, known: Known) -> list[Candidate]:
        """The leaders of all solvers."""
        ranked = sorted((pair for pair in known if pair[1].ok), key=_value)
        leaders = ranked[: self.limits.retimed_leaders]
        return [search.candidate(trial.config) for search, trial in leaders]

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        return budget.trials

    def turns(self, searches: Sequence[SolverSearch], pace_ns: float, *, unseen: bool) -> Turns:
        """A solver that is close to the best gets the next trials."""
        return in_turn(searches, self.limits)

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        """A few trials are made even if preparing large arrays took most of the time."""
        wanted = 1 if limit.over() else self.limits.fewest_trials
        return sum(len(search.trials) for search in searches) >= wanted

    def final_s(self, evaluator: Evaluator) -> float:
        """The time of a few calls of a few leaders."""
        times = evaluator.leader_times_ns()
        return self.limits.final_calls * min(times) * 1e-9 if times else 0.0


@dataclass(frozen=True, slots=True)
class FindStrategy:
    """A find: all solvers are tried, then the budget goes to those that are close to the best."""

    buildable_solvers: tuple[BuildingSolver, ...]
    limits: Limits = field(default_factory=Limits)
    prune_slow = True
    skip_failing_solvers = True
    compares = True

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        return self.buildable_solvers

    def again(self, known: Known) -> list[Candidate]:
        """The best candidate of every solver."""
        best: dict[str, tuple[SolverSearch, Trial]] = {}
        for search, trial in sorted((pair for pair in known if pair[1].ok), key=_value):
            best.setdefault(search.name, (search, trial))
        return [search.candidate(trial.config) for search, trial in best.values()]

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        """The trials of the budget, but at least one for each solver."""
        if budget.trials is None:
            return None
        untried = sum(not search.asked and not search.known for search in searches)
        return max(budget.trials, len(searches), sum(s.asked for s in searches) + untried)

    def turns(self, searches: Sequence[SolverSearch], pace_ns: float, *, unseen: bool) -> Turns:
        """Each solver once, then the opening trials, then solvers that are close to the best.

        With `unseen`, no result is waited for; the rest of the budget is kept until something is
        known. If calls are known to be slow, a solver that is far behind gets no opening trials.
        """
        limits = self.limits
        first = [(search, 1) for search in searches if not search.asked and not search.tried]
        awaited = not unseen and any(search.asked and not search.tried for search in searches)
        slow = pace_ns > limits.slow_ns and not (unseen and pace_ns == float("inf"))
        if slow and (first or awaited):
            return first  # a second trial of a solver would take the time of an untried one
        best = min((search.best for search in searches), default=float("inf"))
        ready = [s for s in searches if not s.broken and (s.tried or (unseen and s.asked))]
        close_to_best = [
            search
            for search in ready
            if nearness(best, search.best) * limits.hopeless_solver_ratio >= 1.0
            or (unseen and not search.known)
        ]
        opening = [
            (search, limits.opening_trials - search.asked)
            for search in (close_to_best if slow else ready)
            if search.asked < limits.opening_trials
        ]
        seen = not unseen or any(search.known for search in searches)
        return [
            *first,
            *opening,
            *(in_turn(close_to_best, limits) if close_to_best and seen else []),
        ]

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        """All solvers were tried, and there are a few new trials; or the time is long over."""
        new = sum(len(search.trials) for search in searches) >= self.limits.fewest_find_trials
        return (new and all(search.tried for search in searches)) or limit.overdue()

    def final_s(self, evaluator: Evaluator) -> float:
        """A round costs a call of each solver; with long calls there are few rounds."""
        pace, limits = evaluator.pace_ns, self.limits
        if pace == float("inf"):
            return 0.0
        rounds, calls = limits.find_final_rounds, limits.final_calls
        if pace > limits.long_ns:
            rounds, calls = limits.long_find_final_rounds, limits.long_find_final_calls
        longest = max(limits.long_ns, pace)
        total = sum(min(time_ns, longest) for time_ns in evaluator.leader_times_ns())
        return (rounds * total + calls * pace) * 1e-9


@dataclass(frozen=True, slots=True)
class KnownStrategy:
    """A check of known candidates; nothing is searched."""

    buildable_solvers: tuple[BuildingSolver, ...]
    prune_slow = False
    skip_failing_solvers = True
    compares = True

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        return self.buildable_solvers

    def again(self, known: Known) -> list[Candidate]:
        """None: the bank or the job says what is timed."""
        return []

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        return 0

    def turns(self, searches: Sequence[SolverSearch], pace_ns: float, *, unseen: bool) -> Turns:
        return []

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        return True

    def final_s(self, evaluator: Evaluator) -> float:
        return 0.0


class VerifyStrategy(KnownStrategy):
    """A check of one config, which runs once and is not compared with a default."""

    skip_failing_solvers = False
    compares = False

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        return 1


def _value(pair: tuple[SolverSearch, Trial]) -> float:
    return pair[1].value or 0.0


# The solvers of a problem: those that build kernels, libraries, refusals, and the default.


@dataclass(frozen=True, slots=True)
class ApplicableSolvers:
    """The known solvers of a problem on a device."""

    building: tuple[BuildingSolver, ...]
    """The most promising first."""
    vendors: tuple[Solver, ...]
    refused: Mapping[str, str]
    """Why solvers do not take part, by name; those for other kinds of devices only if named."""


def buildable_solvers(problem: Problem, device: Device) -> tuple[BuildingSolver, ...]:
    """All solvers that build kernels for a problem, the most promising first."""
    with foreign_code(f"a solver asked about {problem.key}"):
        return tuple(_by_priority(problem, device))


def applicable_solvers(
    problem: Problem, device: Device, only: Sequence[str] = ()
) -> ApplicableSolvers:
    """All solvers of a problem, or those named in `only`."""
    for name in only:
        find_solver(name)  # a wrong name is an error even if nothing else is looked up
    wanted = only or [one.name for one in all_solvers() if _is_ranked(one, device)]
    with foreign_code(f"a solver asked about {problem.key}"):
        refused = {name: _refusal(find_solver(name), problem, device) for name in wanted}
        able = {name for name, reason in refused.items() if not reason}
        building = _by_priority(problem, device)
        vendors = [*vendors_for(problem, device), *map(find_solver, sorted(able))]
    return ApplicableSolvers(
        tuple(solver for solver in building if solver.name in able),
        tuple(
            solver
            for solver in {one.name: one for one in vendors}.values()
            if solver.name in able and not isinstance(solver, BuildingSolver)
        ),
        {name: reason for name, reason in refused.items() if reason},
    )


def _is_ranked(solver: Solver, device: Device) -> bool:
    return supports_device(solver, device) and not isinstance(solver, DrivingSolver)


def _refusal(solver: Solver, problem: Problem, device: Device) -> str:
    """Why a solver is not ranked; one that drives a program never is: its times do not compare."""
    reason = refusal(solver, problem, device)
    if reason or not isinstance(solver, DrivingSolver):
        return reason
    return driver_refusal(solver.name)


def _by_priority(problem: Problem, device: Device) -> list[BuildingSolver]:
    """The solvers that would take part in a tuning, in their order, then the others."""
    able = building_solvers(problem, device)
    racing = solvers_for(problem, device) if able else []
    return [*racing, *(solver for solver in able if solver not in racing)]


def compared(vendor: str) -> bool:
    """Whether the winner is compared with this library."""
    return find_solver(vendor).compared


@dataclass(frozen=True, slots=True)
class DefaultProposal:
    """The default of a problem on a device, with its solver and space."""

    solver: BuildingSolver
    space: Space
    candidate: Candidate


def default_proposal(problem: Problem, device: Device) -> DefaultProposal | None:
    """The default that gains are measured against; None if no solver builds the problem.

    It depends only on the problem and the device: not on the solvers that take part, nor on what
    is known of other problems.
    """
    with foreign_code(f"a solver asked about {problem.key}"):
        try:
            solver = solvers_for(problem, device)[0]
        except UsageError:
            return None
        space = solver.space(problem, device)
        return proposal_of(problem, solver, space)


def proposal_of(problem: Problem, solver: BuildingSolver, space: Space) -> DefaultProposal:
    """The first proposal of a solver in this space."""
    return DefaultProposal(solver, space, Candidate(problem, solver.name, _first_config(space)))


def _first_config(space: Space) -> Config:
    """The most promising config by analysis; the default of a space that has no analysis."""
    promising = space.promising(1) if isinstance(space, Promising) else ()
    return promising[0] if promising else space.default()
