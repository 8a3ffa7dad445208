"""The largest load that holds, where single runs can be lucky or unlucky."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Literal

import numpy as np

from skipjack.core.trial import Status
from skipjack.errors import UsageError
from skipjack.reading import numbered
from skipjack.search.load.bisect import no_feasible_value
from skipjack.search.load.load_posterior import LoadPosterior
from skipjack.search.points import (
    Point,
    Points,
    Predicate,
    Repeat,
    Run,
    SearcherInterface,
    check_callable,
    is_good,
    whole_number,
)

Load = int | float
Verdict = Literal["found", "below", "above"]

_ASKED = tuple((n + 0.5) / 32 for n in range(32))
"""Quantiles of the limit at which a next run is considered."""
_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Answer:
    """The limit: the load at which runs begin to fail more often than is allowed."""

    verdict: Verdict
    """``below``: nothing in the range holds. ``above``: all of the range holds."""
    value: Load | None
    """The limit; None if nothing holds, the upper bound if everything does."""
    low: Load
    high: Load
    confidence: float
    """The probability that the limit lies from `low` to `high`, both included."""
    chance: float
    """The probability that one more run at `value` (or the lower bound) holds."""
    safe: Load | None
    """The largest load that should hold nearly always; None if there is none in the range."""
    runs: int
    """Runs that it is from."""

    def __str__(self) -> str:
        if self.verdict == "below":
            return f"nothing holds, not even {self.low} ({numbered(self.runs, 'run')})"
        if self.verdict == "above":
            return f"everything holds up to {self.value}; try more ({numbered(self.runs, 'run')})"
        sure = f"{self.confidence:.0%} sure of {self.low} to {self.high}"
        return f"limit {self.value}, {sure}; safe {self.safe} ({numbered(self.runs, 'run')})"


def valid(run: Run) -> bool:
    """Whether a run came to its end and says that it counts, where it says anything about that."""
    try:
        return run.ok and bool(run["result_validity"] == "VALID")
    except KeyError:
        return True


class Boundary(SearcherInterface):
    """Search for the largest load that holds. Runs that fail in any way did not hold.

    A bisection believes every run, so one unlucky run early on caps its answer for good. This
    search weighs all runs together (`load_posterior`), runs next where it would learn most, if need
    be the same load again, and says how sure it is. It is how thresholds of perception are found:
    Kontsevich and Tyler, Bayesian Adaptive Estimation of Psychometric Slope and Threshold, Vision
    Research 39 (1999).

    Args:
        search_param: the parameter that is the load.
        lower_bound: where the limit may lie at least.
        upper_bound: where it may lie at most.
        predicate: whether a run held; without it, whether it says VALID or nothing about that.
        resolution: how well the limit is to be known, relative, for the search to end.
        runs: after so many it ends anyway.
        confidence: how sure the answer's interval is to be.
        holds: the share of runs that hold at the limit.
        safe: asks for a second load, which holds with at least this probability.
        integer: whether loads are whole numbers.
        grow: whether the upper bound is doubled when everything holds.
        known: loads that were run before, and whether they held; no part of `runs`.

    Example::

        Boundary("server_target_qps", 500, 9000, lambda run: run["p99_ms"] <= 15, runs=24)
    """

    is_dynamic = True

    def __init__(
        self,
        search_param: str,
        lower_bound: Load,
        upper_bound: Load,
        predicate: Predicate | None = None,
        *,
        resolution: float = 0.01,
        runs: int = 16,
        confidence: float = 0.9,
        holds: float = 0.5,
        safe: float = 0.95,
        integer: bool = True,
        grow: bool = False,
        known: Sequence[tuple[Load, bool]] = (),
    ) -> None:
        self.search_param = search_param
        self.predicate = predicate or valid
        check_callable(self.predicate, f"predicate of {self}")
        shares = {"resolution": resolution, "confidence": confidence, "holds": holds, "safe": safe}
        for name, share in shares.items():
            if not 0.0 < share < 1.0:
                raise UsageError(f"{name} of {self} must lie between 0 and 1, not at {share}")
        if runs < 1:
            raise UsageError(f"runs of {self} must be at least 1, not {runs}")
        self._bounds = self._range(lower_bound, upper_bound, integer)
        self._resolution = resolution
        self.most_runs = runs
        """How many runs it makes at most."""
        self._confidence, self._holds, self._safe = confidence, holds, safe
        self._integer, self._doublings = integer, _MOST_DOUBLINGS if grow else 0
        self._known_runs = tuple(known)
        self._start()

    def __str__(self) -> str:
        return f"Boundary of {self.search_param!r}"

    def _range(self, lower: Load, upper: Load, integer: bool) -> tuple[Load, Load]:
        if integer:
            lower = whole_number(lower, f"lower_bound of {self} (without integer=False)")
            upper = whole_number(upper, f"upper_bound of {self} (without integer=False)")
        if not 0 < lower < upper:
            raise UsageError(
                f"{self} needs a lower bound above 0 and an upper bound above that, "
                f"not {lower} and {upper}"
            )
        return lower, upper

    def _start(self) -> None:
        self._lower, self._upper = self._bounds
        self._left = self._doublings
        self._seen: list[tuple[Load, bool]] = []
        self._forbidden: set[Load] = set()
        self._believe()

    def _believe(self) -> None:
        """All runs so far, weighed over the range as it is now."""
        self._posterior = LoadPosterior(
            self._lower, self._upper, holds=self._holds, resolution=self._resolution
        )
        for load, good in (*self._known_runs, *self._seen):
            self._posterior.add(load, good)

    def generate(self) -> Points:
        """Yield loads; each is answered with its run."""
        self._start()
        while (load := self._next()) is not None:
            point = {self.search_param: load}
            known = any(load == other for other, _ in self._seen)
            run = yield Repeat(point) if known else point
            self._learn(load, run)

    def _learn(self, load: Load, run: Run | None) -> None:
        if run is not None and run.status is Status.INFEASIBLE:
            self._forbidden.add(load)  # a rule forbids it: that says nothing about the limit
            return
        good = is_good(run, self.predicate, str(self))
        self._seen.append((load, good))
        self._posterior.add(load, good)
        if self._left and self._posterior.above > 0.5:
            self._left -= 1
            self._upper *= 2
            self._believe()

    def _next(self) -> Load | None:
        """Where a run tells most about the limit; None when enough is known."""
        if len(self._seen) >= self.most_runs or self._known():
            return None
        asked = {self._load(load) for load in self._posterior.quantiles(_ASKED)}
        loads = sorted((asked | {self._lower, self._upper}) - self._forbidden)
        if not loads:
            return None
        gains = self._posterior.gains(loads)
        return loads[int(np.argmax(gains))]

    def _known(self) -> bool:
        if not self._seen:
            return False
        if max(self._posterior.below, self._posterior.above) >= self._confidence:
            return True
        answer = self.answer
        inside = answer.verdict == "found"
        return inside and (answer.high - answer.low) <= self._resolution * float(answer.value or 1)

    @property
    def answer(self) -> Answer:
        """What is known by now; also while the search goes on."""
        tail = (1.0 - self._confidence) / 2
        low, middle, high = self._posterior.quantiles([tail, 0.5, 1.0 - tail])
        verdict: Verdict = "found"
        if self._posterior.below > 0.5:
            verdict = "below"
        elif self._posterior.above > 0.5:
            verdict = "above"
        value = self._load(middle)
        safe = self._posterior.safe(self._safe)
        return Answer(
            verdict=verdict,
            value=None if verdict == "below" else value,
            low=self._load(low),
            high=self._load(high),
            confidence=self._confidence,
            chance=self._posterior.chance(value),
            safe=None if safe is None else self._load(safe),
            runs=len(self._known_runs) + len(self._seen),
        )

    def _load(self, load: float) -> Load:
        """Within the range, and whole if loads are: the largest whole one that is not more."""
        inside = min(max(float(load), self._lower), self._upper)
        return max(floor(inside + 1e-9), self._lower) if self._integer else inside

    def get_best(self) -> Point:
        """The limit as a point."""
        answer = self.answer
        if answer.value is None:
            raise no_feasible_value(self.search_param, self._lower, self._upper)
        return {self.search_param: answer.value}
