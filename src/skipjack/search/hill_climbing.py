"""Hill climbing: to the best of a few neighbours while that helps, then on from somewhere else."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from skipjack.core.config import Config
from skipjack.core.space import Space
from skipjack.core.trial import Trial
from skipjack.search.fresh import FreshConfigs, scout_count
from skipjack.search.generator import Batch
from skipjack.search.ranking import best, cost
from skipjack.search.searcher import SearchContext

WIDTH = 8
"""Neighbours asked at once: enough to keep builders busy, few enough to move on soon."""
KICK = 3
"""Steps away from the best, before climbing again from there."""

Climb = Generator[Batch, list[Trial], Trial]


def hill_climbing(context: SearchContext) -> Generator[Batch, list[Trial], None]:
    """Climb from the best start; at a summit, go a few steps off the best one or anywhere."""
    space, rng = context.space, context.rng()
    seen = {space.key(trial.config) for trial in context.known}
    fresh = FreshConfigs(space, seen, rng)
    scouts = fresh.several(scout_count(context.trials) - len(context.known))
    trials = [*context.known, *(yield [*context.starts(), *scouts])]
    seen.update(space.key(trial.config) for trial in trials)
    top = best(trials)
    summit = top
    for restart in range(2**31):
        if summit is not None:
            summit = yield from _climb(space, summit, seen, rng)
            top = best([summit] if top is None else [top, summit])
        anywhere = top is None or restart % 2 == 1
        config = fresh.draw() if anywhere or top is None else _stroll(space, top.config, rng)
        if config is None:
            return
        (start,) = yield config
        seen.add(space.key(config))
        summit = start if start.ok else None


def _climb(space: Space, here: Trial, seen: set[str], rng: np.random.Generator) -> Climb:
    """Move to better neighbours until there are none."""
    while True:
        near = near_first(space.neighbours(here.config), rng)
        for begin in range(0, len(near), WIDTH):
            trials = yield near[begin : begin + WIDTH]
            seen.update(space.key(trial.config) for trial in trials)
            better = best(trials)
            if better is not None and cost(better) < cost(here):
                here = better
                break
        else:
            return here


def near_first(neighbours: Sequence[Config], rng: np.random.Generator) -> list[Config]:
    """Shuffled, but roughly in the order of the space, which lists the nearest first."""
    places = np.arange(len(neighbours)) / max(1, len(neighbours)) + rng.random(len(neighbours))
    return [neighbours[at] for at in np.argsort(places, kind="stable")]


def _stroll(space: Space, config: Config, rng: np.random.Generator) -> Config:
    for _ in range(KICK):
        near = space.neighbours(config)
        if near:
            config = near[int(rng.integers(len(near)))]
    return config
