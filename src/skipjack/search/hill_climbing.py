"""Hill climbing: to the best of a few neighbours while that helps, then on from somewhere else."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from skipjack.core.config import Config
from skipjack.core.trial import Trial
from skipjack.search.generator import Batch, Batches, GeneratorSearcher
from skipjack.search.parameters import Count
from skipjack.search.ranking import best, cost
from skipjack.search.searcher import SearchContext


class HillClimbing(GeneratorSearcher):
    """Climb from the best start; at a summit, go a few steps off the best one or anywhere.

    Starting again near the best summit is iterated local search: Lourenço, Martin and Stützle,
    Iterated Local Search, in Handbook of Metaheuristics (2003).

    Args:
        context: what to search.
        width: neighbours asked at once: enough to keep builders busy, few enough to move on soon.
        kick: steps away from the best summit, before climbing again from there.

    Example::

        tune("add:4096", searcher="hill_climbing:width=4", budget=40)
    """

    def __init__(self, context: SearchContext, *, width: Count = 8, kick: Count = 3) -> None:
        super().__init__(self._climb_often, context)
        self._width, self._kick = width, kick

    def _climb_often(self, context: SearchContext) -> Batches:
        scouts = self.fresh.scouts(context)
        top = best([*context.known, *(yield [*context.starts(), *scouts])])
        summit = top
        for restart in range(2**31):
            if summit is not None:
                summit = yield from self._climb(summit)
                top = best([summit] if top is None else [top, summit])
            anywhere = top is None or restart % 2 == 1
            config = self.fresh.draw() if anywhere or top is None else self._stroll(top.config)
            if config is None:
                return
            (start,) = yield config
            summit = start if start.ok else None

    def _climb(self, here: Trial) -> Generator[Batch, list[Trial], Trial]:
        """Move to better neighbours until there are none."""
        while True:
            near = near_first(self.space.neighbours(here.config), self.rng)
            for begin in range(0, len(near), self._width):
                better = best((yield near[begin : begin + self._width]))
                if better is not None and cost(better) < cost(here):
                    here = better
                    break
            else:
                return here

    def _stroll(self, config: Config) -> Config:
        for _ in range(self._kick):
            near = self.space.neighbours(config)
            if near:
                config = near[int(self.rng.integers(len(near)))]
        return config


def near_first(neighbours: Sequence[Config], rng: np.random.Generator) -> list[Config]:
    """Shuffled, but roughly in the order of the space, which lists the nearest first."""
    places = np.arange(len(neighbours)) / max(1, len(neighbours)) + rng.random(len(neighbours))
    return [neighbours[at] for at in np.argsort(places, kind="stable")]
