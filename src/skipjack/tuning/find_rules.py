"""What makes a sitting a find: every solver that can do the problem is tried, and ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.study import Budget
from skipjack.core.trial import Candidate, Trial
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.arm import Arm, in_turn, nearness
from skipjack.tuning.contest import LONG_NS, SLOW_NS, Contest
from skipjack.tuning.rules import Known
from skipjack.tuning.time_limit import TimeLimit

_OPENING = 4
"""Trials that every solver gets; of slow problems a hopeless one gets a single trial."""
_HOPELESS = 1 / 3
"""A solver that is not even so near to the best gets no more."""
_NEWS = 2
"""Trials in every sitting, also where calls are so long that there is no time for them."""
_FINAL, _LONG_FINAL = (16, 40), (3, 16)
"""About how many rounds the final takes, and how many calls of the best the confirmation."""


@dataclass(frozen=True, slots=True)
class FindRules:
    """Everybody is tried before the budget goes to those that are close to the best."""

    entrants: tuple[BuildingSolver, ...]
    hurried = True
    forgiving = True
    compares = True

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """All that were entered."""
        return self.entrants

    def again(self, known: Known) -> list[Candidate]:
        """The best of every solver."""
        best: dict[str, tuple[Arm, Trial]] = {}
        for arm, trial in sorted((pair for pair in known if pair[1].ok), key=_value):
            best.setdefault(arm.name, (arm, trial))
        return [arm.candidate(trial.config) for arm, trial in best.values()]

    def most_trials(self, budget: Budget, arms: Sequence[Arm]) -> int | None:
        """What the budget says, but one for everybody."""
        if budget.trials is None:
            return None
        untried = sum(not arm.asked and not arm.known for arm in arms)
        return max(budget.trials, len(arms), sum(arm.asked for arm in arms) + untried)

    def turns(self, arms: Sequence[Arm], contest: Contest) -> list[tuple[Arm, int]]:
        """First everybody once, then the openings, then who is close to the best."""
        unknown = [arm for arm in arms if not arm.tried]
        first = [(arm, 1) for arm in unknown if not arm.asked]
        slow = contest.pace_ns > SLOW_NS
        if slow and unknown:
            return first  # a second trial of somebody would take the time of one of these
        best = min((arm.best for arm in arms), default=float("inf"))
        known = [arm for arm in arms if arm.tried and not arm.broken]
        hopeful = [arm for arm in known if nearness(best, arm.best) >= _HOPELESS]
        opening = [arm for arm in (hopeful if slow else known) if arm.asked < _OPENING]
        rest = in_turn(hopeful) if hopeful else []
        return [*first, *((arm, _OPENING - arm.asked) for arm in opening), *rest]

    def round_turns(self, arms: Sequence[Arm]) -> list[tuple[Arm, int]]:
        """Everybody once, then the openings, also of those of which nothing is known yet.

        Of what is known to be slow, those that are far behind get no opening. The rest of the
        budget waits until something is known.
        """
        best = min((arm.best for arm in arms), default=float("inf"))
        hopeful = [arm for arm in arms if nearness(best, arm.best) >= _HOPELESS]
        opening = [
            arm
            for arm in arms
            if 0 < arm.asked < _OPENING and (arm in hopeful or best <= SLOW_NS or not arm.known)
        ]
        return [
            *((arm, 1) for arm in arms if not arm.asked),
            *((arm, _OPENING - arm.asked) for arm in opening),
            *(in_turn(hopeful) if any(arm.known for arm in arms) else []),
        ]

    def enough(self, arms: Sequence[Arm], limit: TimeLimit) -> bool:
        """Everybody was tried, and there is some news; or all this takes far too long."""
        news = sum(len(arm.trials) for arm in arms) >= _NEWS
        return (news and all(arm.tried for arm in arms)) or limit.overdue()

    def final_s(self, contest: Contest) -> float:
        """A round costs a call of everybody; of long calls there are few rounds."""
        pace = contest.pace_ns
        if pace == float("inf"):
            return 0.0
        rounds, calls = _LONG_FINAL if pace > LONG_NS else _FINAL
        times = [runner.time_ns for runner in contest.leaders().values()]
        total = sum(min(time_ns, max(LONG_NS, pace)) for time_ns in times)
        return (rounds * total + calls * pace) * 1e-9


def _value(pair: tuple[Arm, Trial]) -> float:
    return pair[1].value or 0.0
