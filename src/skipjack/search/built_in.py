"""The built-in searchers: exhaustive, random, genetic, hill climbing, simulated annealing."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Annotated

import numpy as np

from skipjack.core import Config, Countable, Promising, Recombining, Trial
from skipjack.errors import UsageError
from skipjack.search.generator import Ask, Batch, Batches, GeneratorSearcher
from skipjack.search.searcher import Bounds, Count, SearchContext, Share, best, cost, worsening

# Exhaustive search: every config once, in the order of the space.


class ExhaustiveSearch(GeneratorSearcher):
    """Every config of the space, after the default and the seeds.

    The space must be enumerable.

    Example::

        tune("matmul:64x64x64", searcher="exhaustive")
    """

    def __init__(self, context: SearchContext) -> None:
        if not isinstance(context.space, Countable):
            raise UsageError(
                "this space cannot be enumerated, so it cannot be searched exhaustively; "
                "use the searcher genetic or random"
            )
        self._listing = context.space.enumerate()
        super().__init__(self._list, context)

    def _list(self, context: SearchContext) -> Batches:
        for config in self._listing:
            yield Ask([config], wait=False)


# Random search, without repetitions.


class RandomSearch(GeneratorSearcher):
    """Uniform samples of the space, after the default and the seeds; the baseline for all others.

    If few parameters matter, it beats a grid: Bergstra and Bengio, Random Search for
    Hyper-Parameter Optimization, JMLR 13 (2012).

    Example::

        tune("matmul:64x64x64", searcher="random", seed=7)
    """

    def __init__(self, context: SearchContext) -> None:
        super().__init__(self._draw, context)

    def _draw(self, context: SearchContext) -> Batches:
        while (config := self.fresh.draw()) is not None:
            yield Ask([config], wait=False)


# Steady-state genetic search: it breeds from the trials so far and hardly ever waits.


class GeneticSearch(GeneratorSearcher):
    """Children of good configs, chosen by tournament; first parents are seeds and random configs.

    There are no generations: each trial joins the population when it is told, and the worst leaves
    (Syswerda, A Study of Reproduction in Generational and Steady-State Genetic Algorithms, 1991).
    In spaces that cannot recombine configs, children are neighbours.

    Args:
        context: what to search.
        population: the number of trials to breed from; a small budget starts with fewer.
        tournament: the number of trials drawn for a parent, which is the best of them.
        crossover: the share of children with two parents.
        mutation: the share of children that are changed further.
        immigration: the share of random configs, which lead out of local optima.
        mutations: how often a known child is changed before a random config replaces it.

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
                trials = yield Ask(wait=False)  # wait for the first results
            elif (config := self._child() if founded else self._founder()) is not None:
                trials = yield Ask([config], wait=False)
            else:
                return

    def _observe(self, trial: Trial) -> None:
        """Keep the best trials; failed ones are ignored."""
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
        """A random new neighbour, or one a few steps away."""
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
        return self._population[int(drawn.min())]  # the population is sorted by cost


# Hill climbing: move to the best of a few neighbours while that helps, then restart.


class HillClimbing(GeneratorSearcher):
    """Climb from the best start; at a local optimum, restart near the best one or at random.

    Restarting near the best optimum is iterated local search: Lourenço, Martin and Stützle,
    Iterated Local Search, in Handbook of Metaheuristics (2003).

    Args:
        context: what to search.
        width: neighbours requested at a time: enough to keep builders busy, few enough to move on.
        kick: random steps away from the best optimum before climbing again.

    Example::

        tune("add:4096", searcher="hill_climbing:width=4", budget=40)
    """

    def __init__(self, context: SearchContext, *, width: Count = 8, kick: Count = 3) -> None:
        super().__init__(self._climb_often, context)
        self._width, self._kick = width, kick

    def _climb_often(self, context: SearchContext) -> Batches:
        initial_samples = self.fresh.initial_samples(context)
        top = best([*context.known, *(yield [*context.starts(), *initial_samples])])
        summit = top
        for restart in range(2**31):
            if summit is not None:
                summit = yield from self._climb(summit)
                top = best([summit] if top is None else [top, summit])
            anywhere = top is None or restart % 2 == 1
            config = self.fresh.draw() if anywhere or top is None else self._perturbed(top.config)
            if config is None:
                return
            (start,) = yield config
            summit = start if start.ok else None

    def _climb(self, here: Trial) -> Generator[Batch, list[Trial], Trial]:
        """Move to better neighbours until there is none."""
        while True:
            near = near_first(self.space.neighbours(here.config), self.rng)
            for begin in range(0, len(near), self._width):
                better = best((yield near[begin : begin + self._width]))
                if better is not None and cost(better) < cost(here):
                    here = better
                    break
            else:
                return here

    def _perturbed(self, config: Config) -> Config:
        for _ in range(self._kick):
            near = self.space.neighbours(config)
            if near:
                config = near[int(self.rng.integers(len(near)))]
        return config


def near_first(neighbours: Sequence[Config], rng: np.random.Generator) -> list[Config]:
    """Shuffle neighbours, but keep roughly the order of the space, which has the nearest first."""
    places = np.arange(len(neighbours)) / max(1, len(neighbours)) + rng.random(len(neighbours))
    return [neighbours[at] for at in np.argsort(places, kind="stable")]


# Simulated annealing: a few walkers that accept worse configs less and less often.

Temperature = Annotated[float, Bounds(1e-6, 1e6)]


class SimulatedAnnealing(GeneratorSearcher):
    """Walkers start from the best known configs and step to random neighbours.

    A step to a worse config is accepted the more rarely, the worse it is and the later it comes:
    Kirkpatrick, Gelatt and Vecchi, Optimization by Simulated Annealing, Science 220 (1983).
    Temperatures are on the logarithm of a ratio: at 0.1, 10 % slower is accepted one time in e.

    Args:
        context: what to search.
        walkers: the most walkers; a small budget has fewer, one for about 25 trials.
        hot: the initial temperature.
        cold: the temperature when the budget is spent.
        cooling_trials: the trials of one cooling without a budget; then it starts over.

    Example::

        tune("matmul:512x512x512", searcher="simulated_annealing:walkers=1,hot=0.3")
    """

    def __init__(
        self,
        context: SearchContext,
        *,
        walkers: Count = 4,
        hot: Temperature = 0.1,
        cold: Temperature = 0.005,
        cooling_trials: Annotated[int, Bounds(1, 1_000_000)] = 400,
    ) -> None:
        super().__init__(self._walk, context)
        self._walkers, self._hot, self._cold = walkers, hot, cold
        self._length = context.trials or cooling_trials

    def _walk(self, context: SearchContext) -> Batches:
        initial_samples = self.fresh.initial_samples(context)
        trials = [*context.known, *(yield [*context.starts(), *initial_samples])]
        width = max(1, min(self._walkers, self._length // 25))
        walkers = sorted((trial for trial in trials if trial.ok), key=cost)[:width]
        spent = len(trials) - len(context.known)
        while True:
            cooled = spent % self._length / self._length
            temperature = self._hot * (self._cold / self._hot) ** cooled
            steps: list[Config | None] = [self._step(walker.config) for walker in walkers]
            steps += [self.fresh.draw() for _ in range(width - len(walkers))]
            configs = [config for config in steps if config is not None]
            if not configs:
                return
            spent += len({self.space.key(config) for config in configs} - self.seen)
            trials = yield configs
            moved = zip(walkers, trials, strict=False)
            old_and_new = [self._accept(walker, new, temperature) for walker, new in moved]
            walkers = old_and_new + [trial for trial in trials[len(walkers) :] if trial.ok]

    def _step(self, config: Config) -> Config:
        """A random neighbour, a new one if possible."""
        near = self.space.neighbours(config)
        new = [other for other in near if self.is_new(other)] or near
        return new[int(len(new) * self.rng.random())] if new else config

    def _accept(self, old: Trial, new: Trial, temperature: float) -> Trial:
        if not new.ok:
            return old
        worse = worsening(cost(old), cost(new))
        return new if worse <= 0 or self.rng.random() < math.exp(-worse / temperature) else old
