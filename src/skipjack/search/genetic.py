"""A genetic search in steady state: it breeds from what is known so far and hardly ever waits."""

from __future__ import annotations

import math

from skipjack.core.config import Config
from skipjack.core.space import Promising, Recombining
from skipjack.core.trial import Trial
from skipjack.search.generator import Ask, Batches, GeneratorSearcher
from skipjack.search.parameters import Count, Share
from skipjack.search.ranking import cost
from skipjack.search.searcher import SearchContext


class GeneticSearch(GeneratorSearcher):
    """Children of the best, chosen by tournament. The founders are the seeds and random configs.

    There are no generations: each trial joins the population as it comes, and the worst leaves
    (Syswerda, A Study of Reproduction in Generational and Steady-State Genetic Algorithms, 1991).
    Spaces that cannot recombine have neighbours for children.

    Args:
        context: what to search.
        population: how many trials are bred from; founders are fewer where the budget is small.
        tournament: how many are drawn for a parent; the best of them is it.
        crossover: the share of children that have two parents.
        mutation: the share that is changed further.
        immigration: the share that is random, so that a wrong turn is not for ever.
        mutations: how often a child that was seen is changed before a random one takes its place.

    Example::

        tune("matmul:512x512x512", searcher="genetic:population=30,mutation=0.8")
    """

    def __init__(
        self,
        context: SearchContext,
        *,
        population: Count = 12,
        tournament: Count = 3,
        crossover: Share = 0.7,
        mutation: Share = 0.5,
        immigration: Share = 0.05,
        mutations: Count = 6,
    ) -> None:
        super().__init__(self._breed, context)
        self._size_wanted, self._tournament, self._mutations = population, tournament, mutations
        self._crossover, self._mutation, self._immigration = crossover, mutation, immigration
        self._population: list[Trial] = []
        limit = context.trials
        founders = population if limit is None else max(4, min(population, limit // 5))
        self._founders_wanted = founders
        space = context.space
        promising = space.promising(founders // 2) if isinstance(space, Promising) else ()
        self._promising: list[Config] = [*reversed(promising)]

    def _breed(self, context: SearchContext) -> Batches:
        trials = list(context.known)
        while True:
            for trial in trials:
                self._observe(trial)
            founded = len(self.seen) >= self._founders_wanted
            if founded and not self._population and len(self.seen) > len(self.trials):
                trials = yield Ask(wait=False)  # founders are out and none is back
            elif (config := self._child() if founded else self._founder()) is not None:
                trials = yield Ask([config], wait=False)
            else:
                return

    def _observe(self, trial: Trial) -> None:
        """Keep the best. A failing trial founds nothing."""
        if math.isinf(cost(trial)):
            return
        key = self.space.key(trial.config)
        others = [other for other in self._population if self.space.key(other.config) != key]
        self._population = sorted([*others, trial], key=cost)[: self._size_wanted]

    def _founder(self) -> Config | None:
        while self._promising:
            config = self._promising.pop()
            if self.is_new(config):
                return config
        return self.fresh.draw()

    def _child(self) -> Config | None:
        if not self._population or self.rng.random() < self._immigration:
            return self.fresh.draw()
        config = self._parent().config
        bred = self._bred if isinstance(self.space, Recombining) else self._neighbour
        return bred(config) or self.fresh.draw()

    def _bred(self, config: Config) -> Config | None:
        space, rng = self.space, self.rng
        assert isinstance(space, Recombining)
        if rng.random() < self._crossover:
            config = space.recombine(config, self._parent().config, rng)
        if rng.random() < self._mutation:
            config = space.mutate(config, rng)
        for _ in range(self._mutations):
            if self.is_new(config):
                return config
            config = space.mutate(config, rng)
        return None

    def _neighbour(self, config: Config) -> Config | None:
        """A random new neighbour, or one some steps on."""
        for _ in range(self._mutations):
            near = self.space.neighbours(config)
            new = [other for other in near if self.is_new(other)]
            if new:
                return new[int(self.rng.integers(len(new)))]
            if not near:
                return None
            config = near[int(self.rng.integers(len(near)))]
        return None

    def _parent(self) -> Trial:
        drawn = self.rng.integers(len(self._population), size=self._tournament)
        return self._population[int(drawn.min())]  # it is kept in order of cost
