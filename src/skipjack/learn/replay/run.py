"""A search on a recorded space: no hardware, the same result each time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skipjack.core import Trial
from skipjack.learn.replay.space import RecordedSpace
from skipjack.search import SearchContext, cost, create

SEEDS_OF_PRIOR = 5
"""The best configs of a prior recording that searchers without a model start with."""
_MAX_IDLE = 1000
_DEFAULTS = 20260
"""Makes the stream of defaults another one than that of the searcher with the same seed."""


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """What a searcher found on a recorded space, evaluation by evaluation."""

    searcher: str
    seed: int
    curve: tuple[float, ...]
    """The lowest value after 1, 2, ... unique evaluations; infinite until one succeeds.

    A searcher that ended early has its last value for the rest of the budget.
    """
    asked: tuple[int, ...]
    """The configs in the order of evaluation, as places in the recording."""


def run_replay(
    space: RecordedSpace,
    searcher: str,
    budget: int,
    seed: int = 0,
    *,
    batch: int = 1,
    prior: Sequence[Sequence[Trial]] = (),
) -> ReplayRun:
    """Let a searcher look for the best config with so many unique evaluations.

    Configs are asked for `batch` at a time and told their recorded trials. The run depends only on
    its arguments. A recording has no default worth trusting, so one is drawn for each seed.

    Args:
        space: the recording.
        searcher: name and parameters, such as ``genetic:population=30``.
        budget: the most evaluations, at most the size of the space.
        seed: the searcher's seed.
        batch: how many configs are evaluated before the searcher is told.
        prior: trials of other recordings of the same parameters. Searchers with a model get all of
            them (`SearchContext.prior`), every searcher starts with the best configs of each.
    """
    budget = min(budget, space.count())
    first = space.sample(np.random.default_rng((seed, _DEFAULTS)))
    context = SearchContext(space.starting_at(first), seed=seed, trials=budget)
    if prior:
        context = _with_prior(context, space, prior)
    made = create(searcher, context)
    asked: dict[int, None] = {}
    curve: list[float] = []
    best, idle = math.inf, 0
    while len(asked) < budget and not made.done and idle < _MAX_IDLE:
        configs = made.ask(min(batch, budget - len(asked)))
        idle = 0 if configs else idle + 1
        for config in configs:
            trial = space.trial(config)
            at = space.index(config)
            if at not in asked:
                asked[at] = None
                best = min(best, cost(trial))
                curve.append(best)
            made.tell(trial)
    curve += [best] * (budget - len(curve))
    return ReplayRun(searcher, seed, tuple(curve), tuple(asked))


def _with_prior(
    context: SearchContext, space: RecordedSpace, prior: Sequence[Sequence[Trial]]
) -> SearchContext:
    """The context with trials relative to the best of their recording, and seeds from them."""
    ranked = []
    for trials in prior:
        least = min(map(cost, trials), default=math.inf)
        relative = [
            replace(one, value=one.value / least, metrics={}) if one.value is not None else one
            for one in trials
        ]
        ranked.append(sorted(space.usable_prior(relative), key=cost))
    seeds = {
        space.key(trial.config): trial.config
        for rank in range(SEEDS_OF_PRIOR)
        for trials in ranked
        for trial in trials[rank : rank + 1]
        if trial.ok
    }
    every = tuple(trial for trials in ranked for trial in trials)
    return replace(context, prior=every, seeds=tuple(seeds.values()), default_soon=False)
