"""What makes a study a tuning, a find, or the check of known configs: who is asked, how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.study import Budget
from skipjack.core.trial import Candidate, Trial
from skipjack.solvers import pinned_solvers
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.limits import Limits
from skipjack.tuning.options import TimeLimit
from skipjack.tuning.solver_search import SolverSearch, in_turn, nearness

if TYPE_CHECKING:
    from skipjack.tuning.engine import Evaluator

Known = Sequence[tuple[SolverSearch, Trial]]
"""Trials of earlier study runs."""
Turns = list[tuple[SolverSearch, int]]
"""Searches in the order in which they are asked, each with the most it may ask."""


def led_before(
    searches: Sequence[SolverSearch], strategy: SearchStrategy, default: Candidate | None
) -> list[Candidate]:
    """What of earlier runs is timed again: the default that gains are over, and the leaders."""
    known = [(search, trial) for search in searches for trial in search.known]
    tried = {search.candidate(trial.config) for search, trial in known}
    return [*([default] if default in tried else []), *strategy.again(known)]


class SearchStrategy(Protocol):
    """How a study is run. Pure: searches and evaluator are looked at and not changed."""

    prune_slow: bool
    """Whether the evaluator spends little on those that are long and far behind."""
    skip_failing_solvers: bool
    """Whether the others go on where a solver raises something; else that ends the run."""
    compares: bool
    """Whether the default takes part, for gains to be over it."""

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """Those that take part."""

    def again(self, known: Known) -> list[Candidate]:
        """What of earlier runs is timed again, first of all."""

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        """How many there may be; None for no limit."""

    def turns(self, searches: Sequence[SolverSearch], pace_ns: float, *, unseen: bool) -> Turns:
        """Whose turn it is; `unseen` if nothing comes back before all is asked for."""

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        """Whether the search may end where its time is short."""

    def final_s(self, evaluator: Evaluator) -> float:
        """How long what comes after the search will take at least."""


@dataclass(frozen=True, slots=True)
class TuneStrategy:
    """Those that promise something race for the first place."""

    solver: str | None = None
    """The only one that takes part, if one is named."""
    limits: Limits = field(default_factory=Limits)
    pins: Mapping[str, str] = field(default_factory=dict)
    """Settings that its configs must have."""
    prune_slow = False
    skip_failing_solvers = False
    compares = True

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """The one named, or those that promise something, the most promising first."""
        return pinned_solvers(problem, device, self.pins, self.solver)

    def again(self, known: Known) -> list[Candidate]:
        """The leaders, whichever solvers they are of."""
        ranked = sorted((pair for pair in known if pair[1].ok), key=_value)
        leaders = ranked[: self.limits.retimed_leaders]
        return [search.candidate(trial.config) for search, trial in leaders]

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        return budget.trials

    def turns(self, searches: Sequence[SolverSearch], pace_ns: float, *, unseen: bool) -> Turns:
        """A solver that is close to the best gets the next trials."""
        return in_turn(searches, self.limits)

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        """Large arrays take long to prepare: some are tried all the same."""
        wanted = 1 if limit.over() else self.limits.fewest_trials
        return sum(len(search.trials) for search in searches) >= wanted

    def final_s(self, evaluator: Evaluator) -> float:
        """A few calls of a few leaders."""
        times = evaluator.leader_times_ns()
        return self.limits.final_calls * min(times) * 1e-9 if times else 0.0


@dataclass(frozen=True, slots=True)
class FindStrategy:
    """All are tried before the budget goes to those that are close to the best."""

    entrants: tuple[BuildingSolver, ...]
    limits: Limits = field(default_factory=Limits)
    prune_slow = True
    skip_failing_solvers = True
    compares = True

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        return self.entrants

    def again(self, known: Known) -> list[Candidate]:
        """The best of every solver."""
        best: dict[str, tuple[SolverSearch, Trial]] = {}
        for search, trial in sorted((pair for pair in known if pair[1].ok), key=_value):
            best.setdefault(search.name, (search, trial))
        return [search.candidate(trial.config) for search, trial in best.values()]

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        """What the budget says, but one for each."""
        if budget.trials is None:
            return None
        untried = sum(not search.asked and not search.known for search in searches)
        return max(budget.trials, len(searches), sum(s.asked for s in searches) + untried)

    def turns(self, searches: Sequence[SolverSearch], pace_ns: float, *, unseen: bool) -> Turns:
        """First each once, then the openings, then those that are close to the best.

        Nothing is waited for that does not come back before all is asked for; the rest of the
        budget is kept until something is known. Where calls are known to be slow, one that is far
        behind gets no opening.
        """
        limits = self.limits
        first = [(search, 1) for search in searches if not search.asked and not search.tried]
        awaited = not unseen and any(search.asked and not search.tried for search in searches)
        slow = pace_ns > limits.slow_ns and not (unseen and pace_ns == float("inf"))
        if slow and (first or awaited):
            return first  # a second trial of one would take the time of one of these
        best = min((search.best for search in searches), default=float("inf"))
        ready = [s for s in searches if not s.broken and (s.tried or (unseen and s.asked))]
        hopeful = [
            search
            for search in ready
            if nearness(best, search.best) * limits.hopeless_solver_ratio >= 1.0
            or (unseen and not search.known)
        ]
        opening = [
            (search, limits.opening_trials - search.asked)
            for search in (hopeful if slow else ready)
            if search.asked < limits.opening_trials
        ]
        seen = not unseen or any(search.known for search in searches)
        return [*first, *opening, *(in_turn(hopeful, limits) if hopeful and seen else [])]

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        """All were tried, and there are some new trials; or all this takes far too long."""
        new = sum(len(search.trials) for search in searches) >= self.limits.fewest_find_trials
        return (new and all(search.tried for search in searches)) or limit.overdue()

    def final_s(self, evaluator: Evaluator) -> float:
        """A round costs a call of each; of long calls there are few rounds."""
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
    """Nothing is searched: what is timed is known from before."""

    entrants: tuple[BuildingSolver, ...]
    prune_slow = False
    skip_failing_solvers = True
    compares = True

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        return self.entrants

    def again(self, known: Known) -> list[Candidate]:
        """Nothing of the studies: the bank says what is timed, or the job."""
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
    """One config that was chosen before, which runs once and is compared with no default."""

    skip_failing_solvers = False
    compares = False

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        return 1


def _value(pair: tuple[SolverSearch, Trial]) -> float:
    return pair[1].value or 0.0
