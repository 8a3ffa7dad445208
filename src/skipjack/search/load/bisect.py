"""Bisections: the last value for which a predicate holds that holds up to some value."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skipjack.errors import SkipjackError, UsageError
from skipjack.search.points import (
    Point,
    Points,
    Predicate,
    Run,
    SearcherInterface,
    check_callable,
    is_good,
    whole_number,
)

log = logging.getLogger(__name__)


class Bisection(SearcherInterface):
    """The last value of a parameter for which the predicate holds."""

    is_dynamic = True

    def __init__(self, search_param: str, predicate: Predicate) -> None:
        self.search_param = search_param
        self.predicate = predicate
        self._best: int | None = None
        self._ends = (0, 0)
        """The first and the last possible value."""
        check_callable(predicate, f"predicate of {self}")

    def __str__(self) -> str:
        return f"{type(self).__name__} of {self.search_param!r}"

    def was_good(self, run: Any) -> bool:
        """Whether the predicate holds for a run or for its stats; it does not for None."""
        whole = run if run is None or isinstance(run, Run) else Run({}, run)
        return is_good(whole, self.predicate, str(self))

    def get_best(self) -> Point:
        """The last value that held."""
        if self._best is None:
            raise no_feasible_value(self.search_param, *self._ends)
        return {self.search_param: self._best}

    def _narrow(self, candidates: Sequence[int], first_is_good: bool = False) -> Points:
        """Bisect candidates; the first one is run at the end, if at all."""
        low, high = 0, len(candidates)
        while low + 1 != high:
            middle = (low + high) // 2
            run = yield {self.search_param: candidates[middle]}
            if self.was_good(run):
                low, self._best = middle, candidates[middle]
            else:
                high = middle
        if low == 0 and not first_is_good:
            run = yield {self.search_param: candidates[0]}
            if self.was_good(run):
                self._best = candidates[0]


class Bisect(Bisection):
    """The rightmost good value of ``range(lower_bound, upper_bound, step_size)``.

    `upper_bound` is excluded, as in a range. The lower bound is assumed to hold; it is run only at
    the end, if nothing above it held. A negative step goes downwards.
    """

    def __init__(
        self,
        search_param: str,
        lower_bound: int,
        upper_bound: int,
        step_size: int,
        predicate: Predicate,
    ) -> None:
        super().__init__(search_param, predicate)
        self.candidates = _candidates(str(self), lower_bound, upper_bound, step_size)
        self._ends = self.candidates[0], self.candidates[-1]

    def generate(self) -> Points:
        """Halve the remaining range with each run."""
        self._best = None
        yield from self._narrow(self.candidates)


def no_feasible_value(name: str, first: float, last: float) -> SkipjackError:
    """The error of `get_best` if nothing held."""
    return SkipjackError(
        f"no feasible value of {name!r}: no run from {first} to {last} held; "
        "widen the range or relax the predicate"
    )


def _candidates(owner: str, lower: object, upper: object, step: object) -> range:
    first = whole_number(lower, f"lower_bound of {owner}")
    end = whole_number(upper, f"upper_bound of {owner}")
    size = whole_number(step, f"step_size of {owner}")
    if size == 0:
        raise UsageError(f"step_size of {owner} must not be 0")
    candidates = range(first, end, size)
    if not candidates:
        remedy = "a step_size towards upper_bound" if first != end else "bounds that differ"
        raise UsageError(
            f"{owner} has no values from {first} to {end} in steps of {size}; use {remedy}"
        )
    return candidates


MAX_DOUBLINGS = 40
"""The search ends after this many doublings."""


class FindUpperBound(Bisection):
    """The largest value that holds, found by doubling and then by bisection.

    Twice the start is run first, and doubled while it holds; then the last interval is divided into
    ``2 ** num_bisect_steps`` parts. The start itself is run only at the end, if nothing above held.
    """

    def __init__(
        self, search_param: str, start: int, predicate: Predicate, num_bisect_steps: int
    ) -> None:
        super().__init__(search_param, predicate)
        self.start = whole_number(start, f"start of {self}")
        self.num_bisect_steps = whole_number(num_bisect_steps, f"num_bisect_steps of {self}")
        if self.start < 1:
            raise UsageError(f"start of {self} must be at least 1, not {start}")
        if self.num_bisect_steps < 0:
            raise UsageError(f"num_bisect_steps of {self} must not be negative")
        self._ends = self.start, 2 * self.start

    def generate(self) -> Points:
        """Double, then bisect."""
        self._best = None
        high = 2 * self.start
        while True:
            self._ends = self.start, high
            run = yield {self.search_param: high}
            if not self.was_good(run):
                break
            self._best = high
            if high >= self.start << MAX_DOUBLINGS:
                log.warning(
                    "%s: the predicate still holds at %d, so the search has ended", self, high
                )
                return
            high *= 2
        low = high // 2
        candidates = range(low, high, max(1, (high - low) >> self.num_bisect_steps))
        yield from self._narrow(candidates, first_is_good=self._best is not None)


PARAMETER = "server_target_qps"

PastRun = tuple[Mapping[str, Any], Any]
"""A point and its stats, such as a `Run`."""


class QPSBisect:
    """A bisection of ``server_target_qps`` over ``range(lb, ub, ss)``, created for each step.

    Its only state are the past runs. The last good and the last bad value of them bound the
    remaining range; a good run is VALID. The lower bound is run if all others were bad. Past runs
    must be of this search only.
    """

    def __init__(
        self, lb: int, ub: int, ss: int, past_runs: Iterable[PastRun] | None = None
    ) -> None:
        self._next = _next_value(lb, ub, ss, past_runs or ())

    def get_next_cross(self) -> dict[str, Any] | None:
        """The next point, in a new dict; None at the end."""
        return None if self._next is None else {PARAMETER: self._next}


def _next_value(lb: int, ub: int, ss: int, past_runs: Iterable[PastRun]) -> int | None:
    bisect = Bisect(PARAMETER, lb, ub, ss, lambda run: run["result_validity"] == "VALID")
    candidates = bisect.candidates
    low, high = 0, len(candidates)
    tried = set()
    for point, stats in past_runs:
        value = point.get(PARAMETER) or 0
        if value not in candidates:
            if value == 0:  # not set
                continue
            raise UsageError(
                f"QPSBisect has a past run at {PARAMETER}={value!r}, which is not in the range "
                f"{lb} to {ub} in steps of {ss}; pass only the runs of this search"
            )
        place = candidates.index(value)
        tried.add(place)
        if bisect.was_good(Run(point, stats)):
            low = place
        else:
            high = place
    middle = (low + high) // 2
    return None if middle in tried else candidates[middle]
