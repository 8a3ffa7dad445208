"""One value after the other, every combination of values, or each parameter as far as it helps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

from skipjack.errors import SkipjackError, UsageError, blaming
from skipjack.search.points import Point, Points, Run, SearcherInterface, check_callable, listed

MAX_VALUES = 10_000
"""A walk that is longer than this never ends, as far as a sweep is concerned."""


class CartesianProduct(SearcherInterface):
    """All combinations of the values of `grid`; the last name varies fastest.

    Names in `no_rebuild_params` are moved behind all others, so that what needs a new build
    changes as rarely as can be; within both groups the order of `grid` is kept.
    """

    is_dynamic = False

    def __init__(
        self, grid: Mapping[str, Iterable[Any]], no_rebuild_params: Collection[str] | None = None
    ) -> None:
        self.grid = {
            name: listed(values, name, "CartesianProduct") for name, values in grid.items()
        }
        self.no_rebuild_params = None if no_rebuild_params is None else tuple(no_rebuild_params)

    @property
    def names(self) -> tuple[str, ...]:
        """From the slowest to the fastest."""
        late = self.no_rebuild_params or ()
        return tuple(sorted(self.grid, key=lambda name: name in late))

    def generate(self) -> Points:
        """One point for each combination; a single empty one where there are no parameters."""
        names = self.names
        for values in product(*(self.grid[name] for name in names)):
            yield dict(zip(names, values, strict=True))


class Step(SearcherInterface):
    """``start``, ``update(start)`` and so on; `end` itself is not among them.

    ``Step("x", 1, 4, lambda x: x + 1)`` gives 1, 2, 3. The walk must meet `end` exactly: one that
    passes it, or comes back to where it was, is refused before its first point.
    """

    is_dynamic = False

    def __init__(
        self, search_param: str, start: Any, end: Any, update: Callable[[Any], Any]
    ) -> None:
        self.search_param = search_param
        self.start = start
        self.end = end
        self.update = update
        check_callable(update, f"update of {self}")
        if start == end:
            raise UsageError(
                f"{self} has no values, because its end is left out; "
                "give an end that differs from its start"
            )

    def __str__(self) -> str:
        return f"Step of {self.search_param!r} from {self.start!r} to {self.end!r}"

    @cached_property
    def values(self) -> Sequence[Any]:
        """All values in order; found at the first use, since `update` is a user's function."""
        values = [self.start]
        seen = {repr(self.start)}  # values may not be hashable
        one_way = True
        while (value := self._after(values[-1])) != self.end:
            one_way = one_way and _is_between(values[0], values[-1], value)
            if one_way and _is_between(values[-1], self.end, value):
                raise self._refusal(f"after {values[-1]!r} comes {value!r}")
            if repr(value) in seen:
                raise self._refusal(f"after {values[-1]!r} it comes back to {value!r}")
            seen.add(repr(value))
            if len(values) == MAX_VALUES:
                raise self._refusal(f"it is at {value!r} after {MAX_VALUES} values")
            values.append(value)
        return values

    def generate(self) -> Points:
        """One point for each value."""
        for value in self.values:
            yield {self.search_param: value}

    def _after(self, value: Any) -> Any:
        with blaming(f"update of {self}"):
            return self.update(value)

    def _refusal(self, how: str) -> UsageError:
        return UsageError(
            f"{self} never meets its end: {how}; choose an end that update hits exactly"
        )


def _is_between(first: Any, middle: Any, last: Any) -> bool:
    """Whether `middle` lies on the way from `first` to `last`."""
    try:
        return bool(first <= middle < last or first >= middle > last)
    except TypeError:  # values that have no order
        return False


Better = Callable[[Run, Run], Any]
"""Given the best run so far and a new one: whether the new one is kept. Truthiness counts."""


class GreedyStepper(SearcherInterface):
    """Starts where all steppers start; then each in turn is moved while that is kept.

    At the first value that is not kept, or at its end, a stepper stays at its best value and the
    next one is moved. There is one round.
    """

    is_dynamic = True

    def __init__(self, steppers: Sequence[Step], predicate: Better) -> None:
        self.steppers = tuple(steppers)
        # Not `predicate`: that name is what Composer asks with one run.
        self._better = predicate
        self._best: dict[str, Any] | None = None
        check_callable(predicate, "predicate of GreedyStepper")
        _check(self.steppers)

    def generate(self) -> Points:
        """The starts, then one change at a time."""
        self._best = None
        here = {stepper.search_param: stepper.values[0] for stepper in self.steppers}
        best_run = yield dict(here)
        if best_run is not None and best_run.ok:
            self._best = here
        for stepper in self.steppers:
            for value in stepper.values[1:]:
                there = {**here, stepper.search_param: value}
                run = yield dict(there)
                if not self._keeps(best_run, run):
                    break
                here, best_run, self._best = there, run, there

    def get_best(self) -> Point:
        """The last point that was kept."""
        if self._best is None:
            names = ", ".join(stepper.search_param for stepper in self.steppers)
            raise SkipjackError(f"no feasible point of {names}: none that was run came to its end")
        return dict(self._best)

    def _keeps(self, best: Run | None, new: Run | None) -> bool:
        """Whatever runs is better than what does not."""
        if new is None or not new.ok:
            return False
        if best is None or not best.ok:
            return True
        with blaming("the predicate of GreedyStepper"):
            return bool(self._better(best, new))


def _check(steppers: Sequence[object]) -> None:
    if not steppers:
        raise UsageError("GreedyStepper needs at least one Step")
    names: set[str] = set()
    for stepper in steppers:
        if not isinstance(stepper, Step):
            raise UsageError(f"GreedyStepper moves Steps only, not {type(stepper).__name__}")
        if stepper.search_param in names:
            raise UsageError(f"GreedyStepper was given two Steps of {stepper.search_param!r}")
        names.add(stepper.search_param)
