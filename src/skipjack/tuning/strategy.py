"""What makes a study a tuning, a find, or the check of one config: who is asked, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.study import Budget
from skipjack.core.trial import Candidate, Trial
from skipjack.solvers import solvers_for
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.evaluator import LONG_NS, SLOW_NS, CandidateEvaluator
from skipjack.tuning.options import TimeLimit
from skipjack.tuning.solver_search import SolverSearch, in_turn, nearness

_AT_LEAST = 4
"""Trials, also where there would be too little time for a final after them."""
_AGAIN = 3
"""Leaders of earlier sittings that are timed again."""
_FINAL_CALLS = 40
"""Calls of kernels about as fast as the best that a final and a confirmation take at least."""

Known = Sequence[tuple[SolverSearch, Trial]]
"""Trials of earlier sittings."""


def led_before(
    searches: Sequence[SolverSearch], strategy: SearchStrategy, default: Candidate | None
) -> list[Candidate]:
    """What of earlier sittings is timed again: the default that gains are over, and the leaders."""
    known = [(search, trial) for search in searches for trial in search.known]
    tried = {search.candidate(trial.config) for search, trial in known}
    return [*([default] if default in tried else []), *strategy.again(known)]


class SearchStrategy(Protocol):
    """How a sitting is held. Pure: searches and evaluator are looked at and not changed."""

    prune_slow: bool
    """Whether the evaluator spends little on those that are long and far behind."""
    skip_failing_solvers: bool
    """Whether the others go on where a solver raises something; else that ends the sitting."""
    compares: bool
    """Whether the default takes part, for gains to be over it."""

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """Who takes part."""
        ...

    def again(self, known: Known) -> list[Candidate]:
        """What of earlier sittings is timed again, first of all."""
        ...

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        """How many there may be; None for no limit."""
        ...

    def turns(
        self, searches: Sequence[SolverSearch], evaluator: CandidateEvaluator
    ) -> list[tuple[SolverSearch, int]]:
        """The searches in the order in which they are asked, each with the most it may ask."""
        ...

    def round_turns(self, searches: Sequence[SolverSearch]) -> list[tuple[SolverSearch, int]]:
        """Likewise where a whole round is asked for before anything of it is known."""
        ...

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        """Whether the search may end where its time is short."""
        ...

    def final_s(self, evaluator: CandidateEvaluator) -> float:
        """How long what comes after the search will take at least."""
        ...


@dataclass(frozen=True, slots=True)
class TuneStrategy:
    """Those that promise something race for the first place."""

    solver: str | None = None
    """The only one that takes part, if one is named."""
    prune_slow = False
    skip_failing_solvers = False
    compares = True

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """The one named, or those that promise something, the most promising first."""
        return solvers_for(problem, device, self.solver)

    def again(self, known: Known) -> list[Candidate]:
        """The leaders, whichever solvers they are of."""
        ranked = sorted((pair for pair in known if pair[1].ok), key=lambda pair: pair[1].value or 0)
        return [search.candidate(trial.config) for search, trial in ranked[:_AGAIN]]

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        """What the budget says."""
        return budget.trials

    def turns(
        self, searches: Sequence[SolverSearch], evaluator: CandidateEvaluator
    ) -> list[tuple[SolverSearch, int]]:
        """Who is close to the best gets the next trials."""
        return in_turn(searches)

    def round_turns(self, searches: Sequence[SolverSearch]) -> list[tuple[SolverSearch, int]]:
        """Likewise."""
        return in_turn(searches)

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        """Large arrays take long to prepare: some are tried all the same."""
        return sum(len(search.trials) for search in searches) >= (1 if limit.over() else _AT_LEAST)

    def final_s(self, evaluator: CandidateEvaluator) -> float:
        """A few calls of a few leaders."""
        return _FINAL_CALLS * evaluator.best.time_ns * 1e-9 if evaluator.best else 0.0


_OPENING = 4
"""Trials that every solver gets; of slow problems a hopeless one gets a single trial."""
_HOPELESS = 1 / 3
"""A solver that is not even so near to the best gets no more."""
_NEWS = 2
"""Trials in every sitting, also where calls are so long that there is no time for them."""
_FIND_FINAL, _LONG_FIND_FINAL = (16, 40), (3, 16)
"""About how many rounds the final takes, and how many calls of the best the confirmation."""


@dataclass(frozen=True, slots=True)
class FindStrategy:
    """Everybody is tried before the budget goes to those that are close to the best."""

    entrants: tuple[BuildingSolver, ...]
    prune_slow = True
    skip_failing_solvers = True
    compares = True

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """All that were entered."""
        return self.entrants

    def again(self, known: Known) -> list[Candidate]:
        """The best of every solver."""
        best: dict[str, tuple[SolverSearch, Trial]] = {}
        for search, trial in sorted((pair for pair in known if pair[1].ok), key=_value):
            best.setdefault(search.name, (search, trial))
        return [search.candidate(trial.config) for search, trial in best.values()]

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        """What the budget says, but one for everybody."""
        if budget.trials is None:
            return None
        untried = sum(not search.asked and not search.known for search in searches)
        return max(budget.trials, len(searches), sum(search.asked for search in searches) + untried)

    def turns(
        self, searches: Sequence[SolverSearch], evaluator: CandidateEvaluator
    ) -> list[tuple[SolverSearch, int]]:
        """First everybody once, then the openings, then who is close to the best."""
        unknown = [search for search in searches if not search.tried]
        first = [(search, 1) for search in unknown if not search.asked]
        slow = evaluator.pace_ns > SLOW_NS
        if slow and unknown:
            return first  # a second trial of somebody would take the time of one of these
        best = min((search.best for search in searches), default=float("inf"))
        known = [search for search in searches if search.tried and not search.broken]
        hopeful = [search for search in known if nearness(best, search.best) >= _HOPELESS]
        opening = [search for search in (hopeful if slow else known) if search.asked < _OPENING]
        rest = in_turn(hopeful) if hopeful else []
        return [*first, *((search, _OPENING - search.asked) for search in opening), *rest]

    def round_turns(self, searches: Sequence[SolverSearch]) -> list[tuple[SolverSearch, int]]:
        """Everybody once, then the openings, also of those of which nothing is known yet.

        Of what is known to be slow, those that are far behind get no opening. The rest of the
        budget waits until something is known.
        """
        best = min((search.best for search in searches), default=float("inf"))
        hopeful = [search for search in searches if nearness(best, search.best) >= _HOPELESS]
        opening = [
            search
            for search in searches
            if 0 < search.asked < _OPENING
            and (search in hopeful or best <= SLOW_NS or not search.known)
        ]
        return [
            *((search, 1) for search in searches if not search.asked),
            *((search, _OPENING - search.asked) for search in opening),
            *(in_turn(hopeful) if any(search.known for search in searches) else []),
        ]

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        """Everybody was tried, and there is some news; or all this takes far too long."""
        news = sum(len(search.trials) for search in searches) >= _NEWS
        return (news and all(search.tried for search in searches)) or limit.overdue()

    def final_s(self, evaluator: CandidateEvaluator) -> float:
        """A round costs a call of everybody; of long calls there are few rounds."""
        pace = evaluator.pace_ns
        if pace == float("inf"):
            return 0.0
        rounds, calls = _LONG_FIND_FINAL if pace > LONG_NS else _FIND_FINAL
        times = [loaded.time_ns for loaded in evaluator.leaders().values()]
        total = sum(min(time_ns, max(LONG_NS, pace)) for time_ns in times)
        return (rounds * total + calls * pace) * 1e-9


def _value(pair: tuple[SolverSearch, Trial]) -> float:
    return pair[1].value or 0.0


@dataclass(frozen=True, slots=True)
class VerifyStrategy:
    """One solver, which asks for nothing."""

    chosen: BuildingSolver
    prune_slow = False
    skip_failing_solvers = False
    compares = False

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """The chosen one."""
        return (self.chosen,)

    def again(self, known: Known) -> list[Candidate]:
        """Nothing: the config runs once."""
        return []

    def most_trials(self, budget: Budget, searches: Sequence[SolverSearch]) -> int | None:
        """One."""
        return 1

    def turns(
        self, searches: Sequence[SolverSearch], evaluator: CandidateEvaluator
    ) -> list[tuple[SolverSearch, int]]:
        """Nobody's."""
        return []

    def round_turns(self, searches: Sequence[SolverSearch]) -> list[tuple[SolverSearch, int]]:
        """Nobody's."""
        return []

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        """Always."""
        return True

    def final_s(self, evaluator: CandidateEvaluator) -> float:
        """There is none."""
        return 0.0
