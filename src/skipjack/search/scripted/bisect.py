"""Bisect: the last value of a range for which something holds, if it holds up to some value."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from skipjack.errors import SkipjackError, UsageError
from skipjack.search.scripted.arguments import check_callable, whole_number
from skipjack.search.scripted.contract import Point, Points, Predicate, Run, SearcherInterface
from skipjack.search.scripted.verdict import as_run, is_good

Found = Callable[[int], None]


class Bisect(SearcherInterface):
    """The rightmost good value of ``range(lower_bound, upper_bound, step_size)``.

    `upper_bound` is left out, as in a range. The lower bound is taken for good at first; it is
    run at the very end, when nothing above it held. A negative step goes downwards.
    """

    is_dynamic = True

    def __init__(
        self,
        search_param: str,
        lower_bound: int,
        upper_bound: int,
        step_size: int,
        predicate: Predicate,
    ) -> None:
        self.search_param = search_param
        self.predicate = predicate
        self.candidates = _candidates(str(self), lower_bound, upper_bound, step_size)
        self._best: int | None = None
        check_callable(predicate, f"predicate of {self}")

    def __str__(self) -> str:
        return f"Bisect of {self.search_param!r}"

    def generate(self) -> Points:
        """Halve what is left, run by run."""
        self._best = None
        yield from narrow(self.search_param, self.candidates, self.was_good, self._note)

    def was_good(self, run: Any) -> bool:
        """Whether the predicate holds: of a run, of bare stats, or of nothing (it does not)."""
        return is_good(as_run(run), self.predicate, str(self))

    def get_best(self) -> Point:
        """The largest value that held."""
        if self._best is None:
            first, last = self.candidates[0], self.candidates[-1]
            raise no_feasible_value(self.search_param, first, last)
        return {self.search_param: self._best}

    def _note(self, value: int) -> None:
        self._best = value


def narrow(
    name: str,
    candidates: Sequence[int],
    good: Callable[[Run | None], bool],
    found: Found,
    first_is_good: bool = False,
) -> Generator[Point, Run | None, None]:
    """Bisect candidates, and say each good one to `found`; the first one is run last, if at all."""
    low, high = 0, len(candidates)
    while low + 1 != high:
        middle = (low + high) // 2
        run = yield {name: candidates[middle]}
        if good(run):
            low = middle
            found(candidates[middle])
        else:
            high = middle
    if low == 0 and not first_is_good:
        run = yield {name: candidates[0]}
        if good(run):
            found(candidates[0])


def no_feasible_value(name: str, first: float, last: float) -> SkipjackError:
    """What `get_best` raises when nothing held."""
    return SkipjackError(
        f"no feasible value of {name!r}: none that was run from {first} to {last} held; "
        "widen the range or ease the predicate"
    )


def _candidates(owner: str, lower: object, upper: object, step: object) -> range:
    first = whole_number(lower, f"lower_bound of {owner}")
    end = whole_number(upper, f"upper_bound of {owner}")
    size = whole_number(step, f"step_size of {owner}")
    if size == 0:
        raise UsageError(f"step_size of {owner} must not be 0")
    candidates = range(first, end, size)
    if not candidates:
        way = "from lower_bound to upper_bound" if first != end else "and bounds that differ"
        raise UsageError(
            f"{owner} has no values: {first} to {end} by {size}; it needs a step_size {way}"
        )
    return candidates
