"""A genetic search in steady state: it breeds from what is known so far and hardly ever waits."""

from __future__ import annotations

import math

from skipjack.core.config import Config
from skipjack.core.space import Promising, Recombining
from skipjack.core.trial import Trial
from skipjack.search.bookkeeping import BookkeepingSearcher
from skipjack.search.ranking import cost
from skipjack.search.searcher import SearchContext

POPULATION = 12
TOURNAMENT = 3
CROSSOVER = 0.7
MUTATION = 0.5
IMMIGRATION = 0.05
"""Share of children that are random configs, so that a wrong turn is not for ever."""
MUTATIONS = 6
"""How far a child that was seen before is changed until it counts as a random one."""


class GeneticSearch(BookkeepingSearcher):
    """Children of the best, chosen by tournament. The founders are the seeds and random configs."""

    def __init__(self, context: SearchContext) -> None:
        self._population: list[Trial] = []
        super().__init__(context)
        limit = context.trials
        founders = POPULATION if limit is None else max(4, min(POPULATION, limit // 5))
        self._founders_wanted = founders
        space = context.space
        promising = space.promising(founders // 2) if isinstance(space, Promising) else ()
        self._promising: list[Config] = [*reversed(promising)]

    def propose(self) -> Config | None:
        """A founder, or a child of what is known; waits while founders are out and none is back."""
        if len(self.seen) < self._founders_wanted:
            return self._promised() or self._random()
        if not self._population:
            waiting = len(self.seen) > len(self.trials)
            return None if waiting else self._random()
        if self.rng.random() < IMMIGRATION:
            return self._random()
        return self._child() or self._random()

    def observe(self, trial: Trial) -> None:
        """Keep the best. A failing trial founds nothing."""
        if math.isinf(cost(trial)):
            return
        key = self.space.key(trial.config)
        others = [other for other in self._population if self.space.key(other.config) != key]
        self._population = sorted([*others, trial], key=cost)[:POPULATION]

    def _child(self) -> Config | None:
        space, rng = self.space, self.rng
        config = self._parent().config
        if not isinstance(space, Recombining):
            return self._neighbour(config)
        if rng.random() < CROSSOVER:
            config = space.recombine(config, self._parent().config, rng)
        if rng.random() < MUTATION:
            config = space.mutate(config, rng)
        for _ in range(MUTATIONS):
            if self.is_new(config):
                return config
            config = space.mutate(config, rng)
        return None

    def _neighbour(self, config: Config) -> Config | None:
        """A random new neighbour, or one some steps on."""
        for _ in range(MUTATIONS):
            near = self.space.neighbours(config)
            new = [other for other in near if self.is_new(other)]
            if new:
                return new[int(self.rng.integers(len(new)))]
            if not near:
                return None
            config = near[int(self.rng.integers(len(near)))]
        return None

    def _parent(self) -> Trial:
        drawn = self.rng.integers(len(self._population), size=TOURNAMENT)
        return self._population[int(drawn.min())]  # it is kept in order of cost

    def _promised(self) -> Config | None:
        while self._promising:
            config = self._promising.pop()
            if self.is_new(config):
                return config
        return None

    def _random(self) -> Config | None:
        config = self.fresh.draw()
        if config is None:
            self.finish()
        return config
