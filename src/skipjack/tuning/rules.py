"""What makes a sitting a tuning: which solvers race, who is asked next, when it is enough."""

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
from skipjack.tuning.arm import Arm, in_turn
from skipjack.tuning.contest import Contest
from skipjack.tuning.time_limit import TimeLimit

_AT_LEAST = 4
"""Trials, also where there would be too little time for a final after them."""
_AGAIN = 3
"""Leaders of earlier sittings that are timed again."""
_FINAL_CALLS = 40
"""Calls of kernels about as fast as the best that a final and a confirmation take at least."""

Known = Sequence[tuple[Arm, Trial]]
"""Trials of earlier sittings."""


def led_before(arms: Sequence[Arm], rules: Rules, default: Candidate | None) -> list[Candidate]:
    """What of earlier sittings is timed again: the default that gains are over, and the leaders."""
    known = [(arm, trial) for arm in arms for trial in arm.known]
    tried = {arm.candidate(trial.config) for arm, trial in known}
    return [*([default] if default in tried else []), *rules.again(known)]


class Rules(Protocol):
    """How a sitting is held. Pure: arms and contest are looked at and not changed."""

    hurried: bool
    """Whether the contest spends little on those that are long and far behind."""
    forgiving: bool
    """Whether the others go on where a solver raises something; else that ends the sitting."""
    compares: bool
    """Whether the default takes part, for gains to be over it."""

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """Who takes part."""
        ...

    def again(self, known: Known) -> list[Candidate]:
        """What of earlier sittings is timed again, first of all."""
        ...

    def most_trials(self, budget: Budget, arms: Sequence[Arm]) -> int | None:
        """How many there may be; None for no limit."""
        ...

    def turns(self, arms: Sequence[Arm], contest: Contest) -> list[tuple[Arm, int]]:
        """The arms in the order in which they should be asked, each with the most it may ask."""
        ...

    def round_turns(self, arms: Sequence[Arm]) -> list[tuple[Arm, int]]:
        """Likewise where a whole round is asked for before anything of it is known."""
        ...

    def enough(self, arms: Sequence[Arm], limit: TimeLimit) -> bool:
        """Whether the search may end where its time is short."""
        ...

    def final_s(self, contest: Contest) -> float:
        """How long what comes after the search will take at least."""
        ...


@dataclass(frozen=True, slots=True)
class TuneRules:
    """Those that promise something race for the first place."""

    solver: str | None = None
    """The only one that takes part, if one is named."""
    hurried = False
    forgiving = False
    compares = True

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """The one named, or those that promise something, the most promising first."""
        return solvers_for(problem, device, self.solver)

    def again(self, known: Known) -> list[Candidate]:
        """The leaders, whichever solvers they are of."""
        ranked = sorted((pair for pair in known if pair[1].ok), key=lambda pair: pair[1].value or 0)
        return [arm.candidate(trial.config) for arm, trial in ranked[:_AGAIN]]

    def most_trials(self, budget: Budget, arms: Sequence[Arm]) -> int | None:
        """What the budget says."""
        return budget.trials

    def turns(self, arms: Sequence[Arm], contest: Contest) -> list[tuple[Arm, int]]:
        """Who is close to the best gets the next trials."""
        return in_turn(arms)

    def round_turns(self, arms: Sequence[Arm]) -> list[tuple[Arm, int]]:
        """Likewise."""
        return in_turn(arms)

    def enough(self, arms: Sequence[Arm], limit: TimeLimit) -> bool:
        """Large arrays take long to prepare: some are tried all the same."""
        return sum(len(arm.trials) for arm in arms) >= (1 if limit.over() else _AT_LEAST)

    def final_s(self, contest: Contest) -> float:
        """A few calls of a few leaders."""
        return _FINAL_CALLS * contest.best.time_ns * 1e-9 if contest.best else 0.0
