"""Simulated annealing: a few walkers that accept worse configs less and less often."""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np

from skipjack.core.config import Config
from skipjack.core.space import Space
from skipjack.core.trial import Trial
from skipjack.search.fresh import FreshConfigs, scout_count
from skipjack.search.generator import Batch
from skipjack.search.ranking import cost, worsening
from skipjack.search.searcher import SearchContext

WALKERS = 4
"""At most; each should have about 25 trials to walk."""
HOT, COLD = 0.1, 0.005
"""Temperatures on the logarithm of a ratio: at 0.1, 10 % slower is accepted one time in e."""
COOLING_TRIALS = 400
"""How long cooling takes where there is no budget; then it starts over."""


def simulated_annealing(context: SearchContext) -> Generator[Batch, list[Trial], None]:
    """Walkers start from the best that is known and step to random neighbours."""
    space, rng = context.space, context.rng()
    seen = {space.key(trial.config) for trial in context.known}
    fresh = FreshConfigs(space, seen, rng)
    scouts = fresh.several(scout_count(context.trials) - len(context.known))
    trials = [*context.known, *(yield [*context.starts(), *scouts])]
    seen.update(space.key(trial.config) for trial in trials)
    length = context.trials or COOLING_TRIALS
    width = max(1, min(WALKERS, length // 25))
    walkers = sorted((trial for trial in trials if trial.ok), key=cost)[:width]
    spent = len(trials) - len(context.known)
    while True:
        temperature = HOT * (COLD / HOT) ** (spent % length / length)
        steps: list[Config | None] = [_step(space, walker.config, seen, rng) for walker in walkers]
        steps += [fresh.draw() for _ in range(width - len(walkers))]
        configs = [config for config in steps if config is not None]
        if not configs:
            return
        trials = yield configs
        spent += len({space.key(config) for config in configs} - seen)
        seen.update(space.key(trial.config) for trial in trials)
        moved = zip(walkers, trials, strict=False)
        old_and_new = [_accept(walker, new, temperature, rng) for walker, new in moved]
        walkers = old_and_new + [trial for trial in trials[len(walkers) :] if trial.ok]


def _step(space: Space, config: Config, seen: set[str], rng: np.random.Generator) -> Config:
    """A random neighbour, one that is new if there is one."""
    near = space.neighbours(config)
    new = [other for other in near if space.key(other) not in seen] or near
    return new[int(len(new) * rng.random())] if new else config


def _accept(old: Trial, new: Trial, temperature: float, rng: np.random.Generator) -> Trial:
    if not new.ok:
        return old
    worse = worsening(cost(old), cost(new))
    return new if worse <= 0 or rng.random() < math.exp(-worse / temperature) else old
