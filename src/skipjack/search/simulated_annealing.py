"""Simulated annealing: a few walkers that accept worse configs less and less often."""

from __future__ import annotations

import math
from typing import Annotated

from skipjack.core.config import Config
from skipjack.core.trial import Trial
from skipjack.search.generator import Batches, GeneratorSearcher
from skipjack.search.parameters import Bounds, Count
from skipjack.search.ranking import cost, worsening
from skipjack.search.searcher import SearchContext

Temperature = Annotated[float, Bounds(1e-6, 1e6)]


class SimulatedAnnealing(GeneratorSearcher):
    """Walkers start from the best that is known and step to random neighbours.

    A step to something worse is taken the more rarely, the worse it is and the later it comes:
    Kirkpatrick, Gelatt and Vecchi, Optimization by Simulated Annealing, Science 220 (1983).
    Temperatures are on the logarithm of a ratio: at 0.1, 10 % slower is accepted one time in e.

    Args:
        context: what to search.
        walkers: at most; each has about 25 trials to walk, so a small budget has fewer.
        hot: the temperature at first.
        cold: the temperature when the budget is spent.
        cooling_trials: how long cooling takes where there is no budget; then it starts over.

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
        scouts = self.fresh.scouts(context)
        trials = [*context.known, *(yield [*context.starts(), *scouts])]
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
        """A random neighbour, one that is new if there is one."""
        near = self.space.neighbours(config)
        new = [other for other in near if self.is_new(other)] or near
        return new[int(len(new) * self.rng.random())] if new else config

    def _accept(self, old: Trial, new: Trial, temperature: float) -> Trial:
        if not new.ok:
            return old
        worse = worsening(cost(old), cost(new))
        return new if worse <= 0 or self.rng.random() < math.exp(-worse / temperature) else old
