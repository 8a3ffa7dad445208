"""FindUpperBound: double until it fails, then bisect the last octave."""

from __future__ import annotations

import logging

from skipjack.errors import UsageError
from skipjack.search.scripted.arguments import check_callable, whole_number
from skipjack.search.scripted.bisect import narrow, no_feasible_value
from skipjack.search.scripted.contract import Point, Points, Predicate, Run, SearcherInterface
from skipjack.search.scripted.verdict import is_good

log = logging.getLogger(__name__)

MAX_DOUBLINGS = 40
"""What still holds at a trillion times the start holds always."""


class FindUpperBound(SearcherInterface):
    """The largest value that holds, to within the octave's ``2 ** num_bisect_steps``-th part.

    Twice the start is run first, and doubled while it holds. The start itself is run at the very
    end, when nothing above it held.
    """

    is_dynamic = True

    def __init__(
        self, search_param: str, start: int, predicate: Predicate, num_bisect_steps: int
    ) -> None:
        self.search_param = search_param
        self.predicate = predicate
        self.start = whole_number(start, f"start of {self}")
        self.num_bisect_steps = whole_number(num_bisect_steps, f"num_bisect_steps of {self}")
        self._best: int | None = None
        self._highest = 2 * self.start
        check_callable(predicate, f"predicate of {self}")
        if self.start < 1:
            raise UsageError(f"start of {self} must be at least 1, not {start}; it is doubled")
        if self.num_bisect_steps < 0:
            raise UsageError(f"num_bisect_steps of {self} must not be negative")

    def __str__(self) -> str:
        return f"FindUpperBound of {self.search_param!r}"

    def generate(self) -> Points:
        """Double, then bisect."""
        self._best = None
        self._highest = high = 2 * self.start
        while True:
            self._highest = high
            run = yield {self.search_param: high}
            if not self._good(run):
                break
            self._best = high
            if high >= self.start << MAX_DOUBLINGS:
                log.warning("%s: the predicate still holds at %d; search ended", self, high)
                return
            high *= 2
        low = high // 2
        candidates = range(low, high, max(1, (high - low) >> self.num_bisect_steps))
        known = self._best is not None
        yield from narrow(self.search_param, candidates, self._good, self._note, known)

    def get_best(self) -> Point:
        """The largest value that held."""
        if self._best is None:
            raise no_feasible_value(self.search_param, self.start, self._highest)
        return {self.search_param: self._best}

    def _good(self, run: Run | None) -> bool:
        return is_good(run, self.predicate, str(self))

    def _note(self, value: int) -> None:
        self._best = value
