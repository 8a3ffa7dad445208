"""What is known of configs before anything is measured, as logarithms of times.

Trials of related studies come first, then a trained model's score, then the space's own estimate.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Space, Trial
from skipjack.models import BoostingOptions, fit_trees
from skipjack.search.model.encoding import Encoding, Rows
from skipjack.search.searcher import SearchContext, cost, score_all

Doubles = NDArray[np.float64]

_MOST_FITTED = 1500
"""Configs of related studies that trees are fitted to."""
_FEW = 8
"""Related studies with fewer configs say nothing."""
_TREES = BoostingOptions(trees=40, depth=5, shrinkage=0.2)
_FAILED = math.log(10.0)
"""What a failure in a related study counts as, unless that had slower configs."""
_FLAT = 1e-6


class Estimates:
    """Columns of estimates for configs, the most trusted first; none without a source."""

    def __init__(self, context: SearchContext, encoding: Encoding) -> None:
        self._sources: list[Callable[[Sequence[Config], Rows], Doubles]] = []
        prior = PriorTrials(context.space, context.prior, encoding) if context.prior else None
        if prior is not None and len(prior) >= _FEW:
            self._sources.append(prior.estimates)
        score = context.score
        if score is not None:
            self._sources.append(lambda configs, _: np.array(score_all(score, configs), float))
        expected = getattr(context.space, "expected_cost", None)
        default = context.space.default()
        if encoding.estimates([default]) is not None:
            self._sources.append(lambda configs, _: _present(encoding.estimates(configs)))
        elif expected is not None and expected(default) is not None:
            self._sources.append(lambda configs, _: _logarithms([expected(c) for c in configs]))

    def __len__(self) -> int:
        return len(self._sources)

    def columns(self, configs: Sequence[Config], rows: Rows) -> Rows:
        """A column for each source."""
        found = np.empty((len(configs), len(self._sources)))
        for at, source in enumerate(self._sources):
            values = source(configs, rows)
            usual = values[np.isfinite(values)]
            worst = float(usual.max()) if len(usual) else 0.0
            found[:, at] = np.where(np.isfinite(values), values, worst)
        return found


def _present(values: Doubles | None) -> Doubles:
    assert values is not None
    return values


def _logarithms(costs: Sequence[float | None]) -> Doubles:
    known = np.array([math.nan if one is None else one for one in costs], np.float64)
    return np.where(known > 0, np.log(np.where(known > 0, known, 1.0)), math.nan)


class PriorTrials:
    """Trials of related studies: each config's mean, and trees for the configs that have none."""

    def __init__(self, space: Space, trials: Sequence[Trial], encoding: Encoding) -> None:
        self._space = space
        told: defaultdict[Config, list[float]] = defaultdict(list)
        for trial in trials:
            value = cost(trial)
            told[trial.config].append(math.log(value) if value > 0 else -math.inf)
        usual = [v for values in told.values() for v in values if math.isfinite(v)]
        failed = max([_FAILED, *usual])
        self._means = {
            space.key(config): float(np.mean([min(value, failed) for value in values]))
            for config, values in told.items()
            if min(values) > -math.inf and encoding.accepts(config)
        }
        self._configs = [config for config in told if space.key(config) in self._means]
        self._encoding = encoding

    def __len__(self) -> int:
        return len(self._means)

    def estimates(self, configs: Sequence[Config], rows: Rows) -> Doubles:
        """The mean of what was measured, otherwise what trees predict from it."""
        means = [self._means.get(self._space.key(config)) for config in configs]
        found = np.array([math.nan if mean is None else mean for mean in means])
        missing = np.isnan(found)
        if missing.any():
            step = -(-len(self._configs) // _MOST_FITTED)
            known = self._configs[::step]
            targets = [self._means[self._space.key(config)] for config in known]
            trees = fit_trees(self._encoding.rows(known), targets, _TREES)
            found[missing] = trees.predict(rows[missing])
        return found
