"""The largest load that holds where single runs can be lucky or unlucky."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, floor
from typing import Any, Literal

import numpy as np

from skipjack.core import Status
from skipjack.errors import UsageError
from skipjack.reading import numbered
from skipjack.search.load.bisect import no_feasible_value
from skipjack.search.load.posterior import LoadPosterior
from skipjack.search.points import (
    Point,
    Points,
    Predicate,
    Repeat,
    Run,
    SearcherInterface,
    check_callable,
    config_of,
    is_good,
    listed,
    whole_number,
)

# The limit, and the search for it.

Load = int | float
Verdict = Literal["found", "below", "above"]

_ASKED = tuple((n + 0.5) / 32 for n in range(32))
"""Quantiles of the limit that are considered for the next run."""
_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class LoadLimit:
    """The limit: the load above which runs fail more often than allowed."""

    verdict: Verdict
    """``below``: nothing in the range holds. ``above``: the whole range holds."""
    value: Load | None
    """The limit; None if nothing holds, the upper bound if everything does."""
    low: Load
    high: Load
    confidence: float
    """The probability that the limit is between `low` and `high`, inclusive."""
    chance: float
    """The probability that a further run at `value` (or the lower bound) holds."""
    safe: Load | None
    """The largest load that holds with high probability; None if there is none in the range."""
    runs: int
    """The number of runs behind it."""

    def __str__(self) -> str:
        if self.verdict == "below":
            return f"no load holds, not even {self.low} ({numbered(self.runs, 'run')})"
        if self.verdict == "above":
            runs = numbered(self.runs, "run")
            return f"every load up to {self.value} holds; raise the upper bound ({runs})"
        sure = f"{self.confidence:.0%} sure of {self.low} to {self.high}"
        return f"limit {self.value}, {sure}; safe {self.safe} ({numbered(self.runs, 'run')})"


def valid(run: Run) -> bool:
    """Whether a run succeeded and is not reported as invalid."""
    try:
        return run.ok and bool(run["result_validity"] == "VALID")
    except KeyError:
        return True


class Boundary(SearcherInterface):
    """Search for the largest load that holds. A run that fails in any way does not hold.

    A bisection relies on every single run, so one unlucky run early on limits its result. This
    search combines all runs (`LoadPosterior`), chooses the load with the largest information gain,
    possibly the same load again, and reports its confidence. The method comes from psychophysics:
    Kontsevich and Tyler, Bayesian Adaptive Estimation of Psychometric Slope and Threshold, Vision
    Research 39 (1999).

    Args:
        search_param: the parameter that is the load.
        lower_bound: the lower end of the range.
        upper_bound: the upper end of the range.
        predicate: whether a run held; by default, whether it is not reported as invalid.
        resolution: the relative precision of the limit at which the search ends.
        runs: the most runs.
        confidence: the probability of the answer's interval.
        holds: the share of runs that hold at the limit.
        safe: the probability with which runs hold at the answer's second, safe load.
        integer: whether loads are whole numbers.
        grow: whether the upper bound is doubled if everything holds.
        known: loads of earlier runs, and whether they held; they do not count as `runs`.

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
                raise UsageError(f"{name} of {self} must be between 0 and 1, not {share}")
        if runs < 1:
            raise UsageError(f"runs of {self} must be at least 1, not {runs}")
        self._bounds = self._range(lower_bound, upper_bound, integer)
        self._resolution = resolution
        self.most_runs = runs
        """The most runs that it makes."""
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
        """Compute the posterior of all runs so far over the present range."""
        self._posterior = LoadPosterior(
            self._lower, self._upper, holds=self._holds, resolution=self._resolution
        )
        for load, good in (*self._known_runs, *self._seen):
            self._posterior.add(load, good)

    def generate(self) -> Points:
        """Yield loads; each yield returns its run."""
        self._start()
        while (load := self._next()) is not None:
            point = {self.search_param: load}
            known = any(load == other for other, _ in self._seen)
            run = yield Repeat(point) if known else point
            self._learn(load, run)

    def _learn(self, load: Load, run: Run | None) -> None:
        if run is not None and run.status is Status.INFEASIBLE:
            self._forbidden.add(load)  # a rule forbids it, which is no evidence
            return
        good = is_good(run, self.predicate, str(self))
        self._seen.append((load, good))
        self._posterior.add(load, good)
        if self._left and self._posterior.above > 0.5:
            self._left -= 1
            self._upper *= 2
            self._believe()

    def _next(self) -> Load | None:
        """The load of the largest information gain; None if enough is known."""
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
    def answer(self) -> LoadLimit:
        """The limit as known so far, also during the search."""
        tail = (1.0 - self._confidence) / 2
        low, middle, high = self._posterior.quantiles([tail, 0.5, 1.0 - tail])
        verdict: Verdict = "found"
        if self._posterior.below > 0.5:
            verdict = "below"
        elif self._posterior.above > 0.5:
            verdict = "above"
        value = self._load(middle)
        safe = self._posterior.safe(self._safe)
        return LoadLimit(
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
        """The load within the range, rounded down if loads are whole numbers."""
        inside = min(max(float(load), self._lower), self._upper)
        return max(floor(inside + 1e-9), self._lower) if self._integer else inside

    def get_best(self) -> Point:
        """The limit as a point."""
        answer = self.answer
        if answer.value is None:
            raise no_feasible_value(self.search_param, self._lower, self._upper)
        return {self.search_param: answer.value}


# The range of loads, the settings and the answer of a joint search.

_MOST_SETTINGS = 3000
"""The covariance of all pairs of settings is kept in memory."""


@dataclass(frozen=True, slots=True)
class LoadRange:
    """The load parameter, and the range of its limit."""

    param: str
    lower: Load
    upper: Load
    integer: bool = True

    def at(self, log_load: float) -> Load:
        """The nearest load in the range."""
        load = min(max(exp(log_load), self.lower), self.upper)
        return round(load) if self.integer else load


def range_of(load: LoadRange | tuple[str, Load, Load]) -> LoadRange:
    """A `LoadRange` from itself or from its parts."""
    if isinstance(load, LoadRange):
        return load
    if not isinstance(load, tuple | list) or len(load) != 3:
        raise UsageError(
            f"JointLoad's load must be a parameter with a lower and an upper bound, not {load!r}"
        )
    return LoadRange(*load)


def settings_of(
    parameters: Mapping[str, Sequence[Any]] | None, points: Sequence[Point] | None, load: str
) -> list[Point]:
    """All combinations of the parameters, or the points as they are; each once."""
    if parameters is not None and points is not None:
        raise UsageError("JointLoad takes parameters or points, not both")
    if points is None:
        named = parameters or {}
        grid = {name: listed(values, name, "JointLoad") for name, values in named.items()}
        points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    settings: list[Point] = list({config_of(point).key: dict(point) for point in points}.values())
    if not settings:
        raise UsageError("JointLoad has no settings because a parameter has no values")
    if len(settings) > _MOST_SETTINGS:
        raise UsageError(
            f"JointLoad has {len(settings)} settings, more than {_MOST_SETTINGS}; list fewer values"
        )
    if any(load in setting for setting in settings):
        raise UsageError(
            f"{load!r} is the load of JointLoad and cannot also be one of its parameters"
        )
    return settings


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """The best setting and its load."""

    setting: Point
    load: LoadLimit
    """From the confirming runs, and from runs of the search if those were full runs."""
    runs: int
    settings_run: int
    """The number of settings that were run."""
    settings: int

    def __str__(self) -> str:
        words = ", ".join(f"{name} {value}" for name, value in self.setting.items())
        seen = f"{self.settings_run} of {self.settings} settings in {numbered(self.runs, 'run')}"
        return f"{words}: {self.load} ({seen})"
