"""How a search went: the best after each batch of trials, and who searched."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from skipjack.tuning.options import Observer, Progress
from skipjack.tuning.result import TuneResult

_MOST = 200
"""Rounds that are told, the last ones."""


class SearchRounds:
    """Watches a search, for another observer as well."""

    def __init__(
        self, also: Observer | None = None, now: Callable[[], datetime] = datetime.now
    ) -> None:
        self._also, self._now = also, now
        self._rounds: list[tuple[float, str]] = []
        self._trials = 0

    def observe(self, progress: Progress) -> None:
        """A batch is done, or something else has changed."""
        if progress.best_ns is not None and progress.trials > self._trials:
            self._trials = progress.trials
            ended = self._now().strftime("%Y-%m-%d %H:%M:%S")
            self._rounds.append((progress.best_ns, ended))
        if self._also is not None:
            self._also(progress)

    def told(self) -> tuple[tuple[float, str], ...]:
        """The best time in nanoseconds, and when its round ended."""
        return tuple(self._rounds[-_MOST:])


def who_searched(result: TuneResult) -> str:
    """The searcher on the space of the solver that won, or of the one that was tried most.

    Empty where nothing was tried: all was known from an earlier search.
    """
    ran = [score for score in result.solvers if score.trials]
    won = [score for score in ran if score.solver == result.solver]
    most = max(ran, key=lambda score: score.trials, default=None)
    chosen = won[0] if won else most
    return chosen.searcher if chosen else ""
