"""Scripted searchers: combinations, steps, greedy steps, composition and overlays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

from skipjack.errors import SkipjackError, UsageError, foreign_code
from skipjack.search.points import (
    MissingStatError,
    Point,
    Points,
    Predicate,
    Repeat,
    Run,
    SearcherInterface,
    check_callable,
    do_send,
    is_good,
    listed,
)

# Searchers over lists of values: all combinations, steps of a value, and greedy steps.

MAX_VALUES = 10_000
"""The most values of a `Step`; more are treated as endless."""


class CartesianProduct(SearcherInterface):
    """All combinations of the values of `grid`; the last name varies fastest.

    Names in `no_rebuild_params` are moved behind all others, so that parameters that need a new
    build change as rarely as possible; within both groups the order of `grid` is kept.
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
        """The names from the slowest to the fastest."""
        late = self.no_rebuild_params or ()
        return tuple(sorted(self.grid, key=lambda name: name in late))

    def generate(self) -> Points:
        """Yield a point for each combination; a single empty one without parameters."""
        names = self.names
        for values in product(*(self.grid[name] for name in names)):
            yield dict(zip(names, values, strict=True))


class Step(SearcherInterface):
    """The values ``start``, ``update(start)`` and so on, without `end` itself.

    ``Step("x", 1, 4, lambda x: x + 1)`` gives 1, 2, 3. The values must reach `end` exactly: if they
    pass it or repeat, that is an error before the first point.
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
                f"{self} has no values, because the end is excluded; "
                "use an end that differs from the start"
            )

    def __str__(self) -> str:
        return f"Step of {self.search_param!r} from {self.start!r} to {self.end!r}"

    @cached_property
    def values(self) -> Sequence[Any]:
        """All values in order; computed at the first use, since `update` is a user's function."""
        values = [self.start]
        seen = {repr(self.start)}  # values may not be hashable
        one_way = True
        while (value := self._after(values[-1])) != self.end:
            one_way = one_way and _is_between(values[0], values[-1], value)
            if one_way and _is_between(values[-1], self.end, value):
                raise self._refusal(f"after {values[-1]!r} comes {value!r}")
            if repr(value) in seen:
                raise self._refusal(f"after {values[-1]!r} it returns to {value!r}")
            seen.add(repr(value))
            if len(values) == MAX_VALUES:
                raise self._refusal(f"it is at {value!r} after {MAX_VALUES} values")
            values.append(value)
        return values

    def generate(self) -> Points:
        """Yield a point for each value."""
        for value in self.values:
            yield {self.search_param: value}

    def _after(self, value: Any) -> Any:
        with foreign_code(f"update of {self}"):
            return self.update(value)

    def _refusal(self, how: str) -> UsageError:
        return UsageError(
            f"{self} never reaches its end: {how}; choose an end that update reaches exactly"
        )


def _is_between(first: Any, middle: Any, last: Any) -> bool:
    """Whether `middle` is between `first` and `last`."""
    try:
        return bool(first <= middle < last or first >= middle > last)
    except TypeError:  # values that have no order
        return False


Better = Callable[[Run, Run], Any]
"""Given the best run so far and a new one, returns whether the new one is better."""


class GreedyStepper(SearcherInterface):
    """Starts from the first values; then moves each parameter in turn while that is better.

    At the first value that is not better, or at its end, a parameter keeps its best value and the
    next one is moved. There is only one round.
    """

    is_dynamic = True

    def __init__(self, steppers: Sequence[Step], predicate: Better) -> None:
        self.steppers = tuple(steppers)
        # Not `predicate`, which Composer would call with one run.
        self._better = predicate
        self._best: dict[str, Any] | None = None
        check_callable(predicate, "predicate of GreedyStepper")
        _check(self.steppers)

    def generate(self) -> Points:
        """Yield the first values, then one change at a time."""
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
        """The best point."""
        if self._best is None:
            names = ", ".join(stepper.search_param for stepper in self.steppers)
            raise SkipjackError(f"no feasible point of {names}: all runs failed")
        return dict(self._best)

    def _keeps(self, best: Run | None, new: Run | None) -> bool:
        """Whether a run is better; a run that succeeds is better than one that fails."""
        if new is None or not new.ok:
            return False
        if best is None or not best.ok:
            return True
        with foreign_code("the predicate of GreedyStepper"):
            return bool(self._better(best, new))


def _check(steppers: Sequence[object]) -> None:
    if not steppers:
        raise UsageError("GreedyStepper needs at least one Step")
    names: set[str] = set()
    for stepper in steppers:
        if not isinstance(stepper, Step):
            raise UsageError(f"GreedyStepper moves Steps only, not {type(stepper).__name__}")
        if stepper.search_param in names:
            raise UsageError(
                f"GreedyStepper has two Steps of {stepper.search_param!r}; remove one of them"
            )
        names.add(stepper.search_param)


# Composer, which combines searchers, and Overlay, which fixes values.

Part = SearcherInterface | tuple[SearcherInterface, Predicate]


class _Member:
    """A searcher of a `Composer`, and its predicate."""

    def __init__(self, part: object) -> None:
        self.given: Predicate | None
        searcher, self.given = part if isinstance(part, tuple) and len(part) == 2 else (part, None)
        if not isinstance(searcher, SearcherInterface):
            raise UsageError(
                f"Composer takes searchers, or pairs of a searcher and a predicate, not {part!r}"
            )
        self.searcher, self.name = searcher, type(searcher).__name__
        self.own: Predicate | None = getattr(searcher, "predicate", None)
        if isinstance(part, tuple):
            check_callable(self.given, f"predicate given for {self.name} in Composer")

    def wants(self, run: Run | None) -> bool:
        """Whether to ask the searcher: by the given predicate, or its own, or always."""
        if self.given is None:
            return self.own is None or is_good(run, self.own, f"{self.name} in Composer")
        if run is None:
            return False
        with foreign_code(f"the predicate of {self.name} in Composer"):
            try:
                return bool(self.given(run))
            except MissingStatError:
                if run.ok:
                    raise
                return False  # a failed run has few metrics


class Composer(SearcherInterface):
    """Points that combine one term of each searcher; one term changes at a time.

    After each run the searchers are asked in order, each only if its predicate accepts the run: the
    one given as ``(searcher, predicate)``, else its own `predicate`, else always. The first next
    term is used. If there is none, all are asked in reverse order, regardless of predicates.
    `timeout` is the most runs; None or a negative number is no limit.
    """

    is_dynamic = True

    def __init__(self, searchers: Iterable[Part], timeout: int | None) -> None:
        self._members = [_Member(part) for part in searchers]
        if not self._members:
            raise UsageError("Composer needs at least one searcher")
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int)):
            raise UsageError(f"timeout of Composer must be a number of runs, not {timeout!r}")
        self.timeout = timeout
        self._best: Point | None = None

    def generate(self) -> Points:
        """Yield the first terms together, then one change at a time."""
        self._best = None
        terms = [member.searcher.generate() for member in self._members]
        firsts = [first for each in terms if (first := do_send(each)) is not None]
        here: dict[str, Any] = {}
        for first in firsts:
            here.update(first)
        term = firsts[-1] if firsts else None
        runs = 0
        while term is not None and runs != self.timeout:
            run = yield Repeat(here) if isinstance(term, Repeat) else dict(here)
            runs += 1
            leads = self._members[0].wants(run)
            if leads and run is not None and run.ok:
                self._best = dict(here)
            term = self._next(terms, run, leads)
            here.update(term or {})

    def get_best(self) -> Point:
        """The point of the last run that the first searcher's predicate accepted."""
        if self._members[0].given is None and self._members[0].own is None:
            return super().get_best()
        if self._best is None:
            raise SkipjackError(
                f"no feasible point: {self._members[0].name}, the first searcher of Composer, "
                "accepted none of its runs"
            )
        return dict(self._best)

    def _next(self, terms: Sequence[Points], run: Run | None, leads: bool) -> dict[str, Any] | None:
        for member, points in zip(self._members, terms, strict=True):
            wants = leads if member is self._members[0] else member.wants(run)
            if wants and (term := do_send(points, run)) is not None:
                return term
        for points in reversed(terms):
            if (term := do_send(points, run)) is not None:
                return term
        return None


class Overlay(SearcherInterface):
    """Lays `overlay_dict` over every point of `subject`, including its best one."""

    def __init__(self, subject: SearcherInterface, overlay_dict: Mapping[str, Any]) -> None:
        if not isinstance(subject, SearcherInterface):
            raise UsageError(f"Overlay takes a searcher, not {subject!r}")
        self.subject = subject
        self.overlay_dict = dict(overlay_dict)
        self.predicate: Predicate | None = getattr(subject, "predicate", None)
        """The subject's predicate, so that a Composer treats both alike."""

    @property
    def is_dynamic(self) -> bool:
        return self.subject.is_dynamic

    def generate(self) -> Points:
        """Yield the subject's points with the fixed values."""
        points = self.subject.generate()
        run: Run | None = None
        while (point := do_send(points, run)) is not None:
            point.update(self.overlay_dict)
            run = yield point

    def get_best(self) -> Point:
        """The subject's best point with the fixed values."""
        return {**self.subject.get_best(), **self.overlay_dict}
