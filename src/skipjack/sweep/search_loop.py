"""The loop of a sweep: the searcher asks, points are run with the fewest builds, and told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from skipjack.core.config import Config
from skipjack.core.trial import Trial
from skipjack.errors import UsageError
from skipjack.search import Searcher
from skipjack.sweep.measuring import Measuring
from skipjack.sweep.ordering import fewest_builds

log = logging.getLogger(__name__)

AHEAD = 256
"""Points asked at once of a search that does not wait: what the order and early builds see."""
MOST_REFUSED = 10_000
"""So many forbidden points in a row are no search."""
SOON = 16
"""Points whose builds may be made ahead."""

Refusal = Callable[[Config], str]
"""Why a point may not be run; empty if it may."""


class SearchLoop:
    """Spends the budget of a search."""

    def __init__(
        self,
        measuring: Measuring,
        refusal: Refusal,
        stop: Callable[[], bool],
        on_tell: Callable[[Trial], None] = lambda trial: None,
    ) -> None:
        self._bench, self._measuring, self._options = measuring.bench, measuring, measuring.options
        self._refusal, self._stop, self._on_tell = refusal, stop, on_tell
        self._last_build = ""
        self.asked = self._refused = 0
        self.told: list[Trial] = []
        """What the searcher was told, in order."""

    def search(self, searcher: Searcher, *, in_order: bool) -> None:
        """Ask and tell until the search is done or the budget is spent.

        `in_order` keeps to the searcher's order; otherwise points that share a build go together.
        """
        while not self.over() and not searcher.done:
            if self._refused > MOST_REFUSED:
                raise UsageError(f"the search names only forbidden points, {self._refused} by now")
            batch = searcher.ask(self._room())
            if not batch:
                log.debug("the search waits for nothing; it is taken as done")
                return
            points = self._allowed(searcher, batch)
            if not in_order:
                points = fewest_builds(
                    points, lambda one: self._bench.build_key(self._split(one)[0]), self._last_build
                )
            for at, point in enumerate(points):
                if self.over():
                    return
                self._announce(points[at : at + SOON])
                self._tell(searcher, self._measure(point))

    def over(self) -> bool:
        """Whether the budget is spent or somebody pressed Ctrl-C."""
        budget = self._options.budget
        late = budget.seconds is not None and self._measuring.elapsed_s >= budget.seconds
        return self._stop() or late or self._room() <= 0

    def _room(self) -> int:
        trials = self._options.budget.trials
        return AHEAD if trials is None else min(AHEAD, trials - self.asked)

    def _measure(self, point: Config) -> Trial:
        self.asked += 1
        plain, settings = self._split(point)
        trial = self._measuring.measure(plain, "search", settings, self._options.repeats)
        self._last_build = self._bench.build_key(plain)
        return replace(trial, config=point)

    def _split(self, asked: Config) -> tuple[Config, Mapping[str, Any]]:
        """A point, and the settings of short runs: the sweep's, or those that the search laid
        over it."""
        joint = self._options.joint_screen
        if joint and all(asked.get(name) == value for name, value in joint.items()):
            kept = {name: value for name, value in asked.items() if name not in joint}
            return Config.of(kept), joint
        return asked, self._options.screen

    def _announce(self, points: Sequence[Config]) -> None:
        """Builds that will be needed may be made ahead."""
        split = [self._split(point) for point in points]
        self._bench.prepare([p for p, settings in split if not self._measuring.known(p, settings)])

    def _allowed(self, searcher: Searcher, batch: Sequence[Config]) -> list[Config]:
        """The points that may be run; the searcher is told of the others at once."""
        allowed = []
        for point in batch:
            plain, _ = self._split(point)
            if reason := self._refusal(plain):
                self._refused += 1
                trial = self._measuring.refuse(plain, reason)
                self._tell(searcher, replace(trial, config=point))
            else:
                self._refused = 0
                allowed.append(point)
        return allowed

    def _tell(self, searcher: Searcher, trial: Trial) -> None:
        self.told.append(trial)
        self._on_tell(trial)
        searcher.tell(trial)
