"""The oldest form of a search hook: all past runs in, the next point out, nothing remembered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skipjack.core.trial import Status
from skipjack.errors import ForeignError
from skipjack.search.points import (
    Point,
    Points,
    Run,
    SearcherInterface,
    Stats,
    config_of,
)

PastRuns = list[tuple[dict[str, Any], Mapping[str, Any]]]
"""Points with all that their runs said, in the order of the runs."""
Ask = Callable[[PastRuns], Point | None]
"""The hook: anything falsy ends the search."""

MOST_REPEATS = 20
"""A point may be asked for again, to see how much runs differ; more often it is a mistake."""


class StatelessSearch(SearcherInterface):
    """Asks the hook before each point, with a list of its own each time."""

    def __init__(self, ask: Ask, where: str) -> None:
        self._ask = ask
        self._where = where

    @property
    def is_dynamic(self) -> bool:
        """Always: it is given the results."""
        return True

    def generate(self) -> Points:
        """Points until the hook has none."""
        past: PastRuns = []
        asked: dict[str, int] = {}
        while point := self._ask([(dict(cross), stats) for cross, stats in past]):
            key = config_of(point).key
            asked[key] = asked.get(key, 0) + 1
            if asked[key] > MOST_REPEATS:
                raise ForeignError(
                    f"{self._where}: META_search_callback returned the point {key} "
                    f"{asked[key]} times, so the search was stopped; return None to end it"
                )
            run = yield dict(point)
            past.append((dict(point), _stats(run)))


def _stats(run: Run | None) -> Mapping[str, Any]:
    if run is None:
        return Stats({}, Status.ERROR)
    return run.stats if isinstance(run.stats, Mapping) else Stats(getattr(run.stats, "data", {}))
