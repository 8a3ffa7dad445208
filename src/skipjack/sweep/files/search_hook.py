"""META_search_callback: three forms, told apart by signature and by what is returned.

=========================  ====================  ===============================================
signature                  returns               since then
=========================  ====================  ===============================================
``()``                     a searcher            it is asked for points
``(past_runs)``            a point or None       the hook is asked again before each point
``(past_runs)``            a searcher            called once with an empty list
=========================  ====================  ===============================================
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

from skipjack.core.trial import Status
from skipjack.errors import ForeignError, UsageError
from skipjack.reading import numbered
from skipjack.search.points import config_of
from skipjack.search.scripted import Points, Run, SearcherInterface, Stats, do_send

NAME = "META_search_callback"
MOST_REPEATS = 20
"""A point may be asked for again, to see how much runs differ; more often it is a mistake."""
PastRuns = list[tuple[dict[str, Any], Mapping[str, Any]]]
"""Points with all that their runs said, in the order of the runs."""
Guard = Callable[[], AbstractContextManager[None]]
"""Makes a hook's imports work, and what it raises a sentence."""


class SearchHook:
    """Calling it gives a fresh searcher. The callback was called once, when the file was read."""

    def __init__(self, callback: Callable[..., object], where: str, guard: Guard) -> None:
        self._callback, self._where, self._guard = callback, where, guard
        self._takes_past_runs = _takes_past_runs(callback, self._where)
        self._first: SearcherInterface | None = self._make()

    def __call__(self) -> SearcherInterface:
        """The searcher; what the first call gave is given out once."""
        searcher, self._first = self._first, None
        return GuardedSearcher(searcher or self._make(), self._guard)

    def _make(self) -> SearcherInterface:
        result = self._ask([])
        if _is_searcher(result):
            return cast(SearcherInterface, result)
        if self._takes_past_runs and (not result or isinstance(result, Mapping)):
            return _StatelessSearch(self._next_point, self._where)
        raise UsageError(f"{self._where}: {NAME} returned {_described(result)}; {self._wanted}")

    @property
    def _wanted(self) -> str:
        if self._takes_past_runs:
            return "return a searcher, a dict with the next point, or None to end the search"
        return "return a searcher such as Bisect(...); to return points, take past_runs"

    def _next_point(self, past_runs: PastRuns) -> Mapping[str, Any] | None:
        result = self._ask(past_runs)
        if not result:
            return None
        if not isinstance(result, Mapping) or not all(isinstance(name, str) for name in result):
            raise UsageError(
                f"{self._where}: {NAME} returned {_described(result)} after "
                f"{numbered(len(past_runs), 'run')}; return a dict with the next point, or None to "
                "end the search"
            )
        return result

    def _ask(self, past_runs: PastRuns) -> object:
        with self._guard():
            return self._callback(past_runs) if self._takes_past_runs else self._callback()


class _StatelessSearch(SearcherInterface):
    """The oldest form: all past runs in, the next point out, nothing remembered."""

    is_dynamic = True

    def __init__(self, ask: Callable[[PastRuns], Mapping[str, Any] | None], where: str) -> None:
        self._ask, self._where = ask, where

    def generate(self) -> Points:
        """Points until the hook has none; it is given a list of its own each time."""
        past: PastRuns = []
        asked: Counter[str] = Counter()
        while point := self._ask([(dict(cross), stats) for cross, stats in past]):
            key = config_of(point).key
            asked[key] += 1
            if asked[key] > MOST_REPEATS:
                raise ForeignError(
                    f"{self._where}: {NAME} returned the point {key} "
                    f"{asked[key]} times, so the search was stopped; return None to end it"
                )
            run = yield dict(point)
            stats = Stats({}, Status.ERROR) if run is None else run.stats
            if not isinstance(stats, Mapping):
                stats = Stats(getattr(stats, "data", {}))
            past.append((dict(point), stats))


class GuardedSearcher(SearcherInterface):
    """A user's searcher whose mistakes are sentences with file and line."""

    def __init__(self, subject: SearcherInterface, guard: Guard) -> None:
        self.subject = subject
        self._guard = guard

    @property
    def is_dynamic(self) -> bool:
        with self._guard():
            return bool(self.subject.is_dynamic)

    def generate(self) -> Points:
        """As the user's, which is entered with its imports in place."""
        with self._guard():
            points = self.subject.generate()
        run: Run | None = None
        while True:
            with self._guard():
                point = do_send(points, run)
            if point is None:
                return
            run = yield point

    def get_best(self) -> Mapping[str, Any]:
        """As the user's; NotImplementedError is for those that do not say."""
        with self._guard():
            try:
                best = self.subject.get_best()
            except (NotImplementedError, AttributeError):
                best = None
        if not isinstance(best, Mapping):
            raise NotImplementedError(f"{type(self.subject).__name__} does not say what is best")
        return best


def _takes_past_runs(callback: Callable[..., object], where: str) -> bool:
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    if needed or len([p for p in positional if p.default is p.empty]) > 1:
        raise UsageError(
            f"{where}: {NAME} takes {len(positional) + len(needed)} arguments; "
            "it is given none, or the past runs"
        )
    return bool(positional)


def _is_searcher(result: object) -> bool:
    if isinstance(result, SearcherInterface):
        return True
    if isinstance(result, type):
        return False
    return callable(getattr(result, "generate", None)) and hasattr(result, "is_dynamic")


def _described(result: object) -> str:
    if isinstance(result, type):
        return f"the class {result.__name__}, not an object of it"
    if result is None:
        return "None"
    return f"a {type(result).__name__}"
