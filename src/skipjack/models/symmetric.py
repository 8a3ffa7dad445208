"""Boosted trees for many targets at once whose levels each compare a single feature.

All nodes of a level have the same comparison, so a row's leaf is a number with one bit for each
level, and NumPy evaluates hundreds of trees with hundreds of targets in microseconds: a loop over
levels, as `TreeEnsemble` needs, takes ten times as long for a single row.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skipjack.errors import MalformedError, UsageError
from skipjack.models.trees import Arrays, Doubles, Floats, Integers

_INTEGERS, _FLOATS = ("features",), ("thresholds", "values", "base")


@dataclass(frozen=True, slots=True)
class SymmetricOptions:
    """How the trees are fitted."""

    trees: int = 200
    depth: int = 5
    shrinkage: float = 0.12
    ridge: float = 1.0
    """Added to the weight of each leaf."""
    bins: int = 24
    """The most thresholds of a feature."""
    row_share: float = 0.7
    """The share of rows that each tree is fitted to."""
    split_share: float = 0.4
    """The share of comparisons that each tree may use."""


@dataclass(frozen=True, slots=True)
class SymmetricTrees:
    """The sum of the leaf values of all trees, for each target."""

    features: Integers
    """The feature that each level of each tree compares; an array (trees, depth)."""
    thresholds: Floats
    """A feature above its threshold sets the bit of the level."""
    values: Floats
    """An array (trees, leaves, targets)."""
    base: Floats
    """What is added, for each target."""

    def predict(self, row: ArrayLike) -> Floats:
        """The estimate of each target for one row of features."""
        values = np.asarray(row, np.float32)
        trees, leaves, targets = self.values.shape
        bits = (values[self.features] > self.thresholds).astype(np.float32)
        at = bits @ _bit_values(self.features.shape[1])
        places = at.astype(np.intp) + np.arange(0, trees * leaves, leaves)
        found: Floats = self.values.reshape(-1, targets).take(places, axis=0).sum(axis=0)
        return found + self.base

    def predict_rows(self, rows: ArrayLike) -> Floats:
        """The same for many rows."""
        table = np.atleast_2d(np.asarray(rows, np.float32))
        return np.array([self.predict(row) for row in table], np.float32).reshape(len(table), -1)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a file; the values as halves, which are exact enough."""
        found = {name: getattr(self, name) for name in (*_INTEGERS, *_FLOATS)}
        return {**found, "values": self.values.astype(np.float16)}

    @classmethod
    def of(cls, arrays: Arrays, where: str, width: int) -> SymmetricTrees:
        """The trees in `arrays`, for rows of `width`; `MalformedError` if they are damaged."""
        kinds = dict.fromkeys(_INTEGERS, "iu") | dict.fromkeys(_FLOATS, "f")
        for name, kind in kinds.items():
            if name not in arrays or arrays[name].dtype.kind not in kind:
                raise MalformedError(f"{where} has no valid array {name} of its trees")
        features = arrays["features"].astype(np.int32)
        floats = {name: arrays[name].astype(np.float32) for name in _FLOATS}
        thresholds, values, base = (floats[name] for name in _FLOATS)
        fits = (
            features.ndim == 2
            and thresholds.shape == features.shape
            and values.shape == (features.shape[0], 1 << min(features.shape[1], 16), base.size)
            and base.ndim == 1
        )
        if not fits or features.size == 0:
            raise MalformedError(f"{where} is damaged: the arrays of its trees do not fit")
        if features.min() < 0 or features.max() >= width:
            raise MalformedError(f"{where} is damaged: its trees compare features that no row has")
        if not all(np.isfinite(one).all() for one in floats.values()):
            raise MalformedError(f"{where} is damaged: its trees contain numbers that are none")
        return cls(features, thresholds, values, base)


@functools.cache
def _bit_values(depth: int) -> Floats:
    return (2.0 ** np.arange(depth)).astype(np.float32)


def fit_symmetric(
    rows: ArrayLike,
    targets: ArrayLike,
    options: SymmetricOptions | None = None,
    *,
    weights: ArrayLike | None = None,
    seed: int = 0,
) -> SymmetricTrees:
    """Fit trees to rows of targets; the same arguments give the same trees.

    Args:
        rows: features, one row for each row of targets.
        targets: an array (rows, targets).
        options: how they are fitted.
        weights: an array (rows, targets), or (rows, 1); 0 for targets that are not known.
        seed: of the choice of rows and comparisons.
    """
    options = options or SymmetricOptions()
    table, wanted = np.asarray(rows, np.float32), np.asarray(targets, np.float32)
    if table.ndim != 2 or wanted.ndim != 2 or len(table) != len(wanted) or not len(table):
        raise UsageError(f"rows {table.shape} and targets {wanted.shape} do not fit each other")
    weighed = np.asarray(np.ones((len(table), 1)) if weights is None else weights, np.float32)
    if weighed.ndim == 2 and (weighed == weighed[:, :1]).all():
        weighed = weighed[:, :1]  # the same for all targets, which saves half of the time
    known = np.broadcast_to(weighed > 0, wanted.shape)
    if not (np.isfinite(table).all() and np.isfinite(wanted[known]).all()):
        raise UsageError("trees are fitted to finite numbers; replace NaN and infinity")
    wanted = np.where(known, wanted, 0.0).astype(np.float32)
    return _Growing(table, wanted, weighed, options, np.random.default_rng(seed)).fit()


class _Growing:
    """Fits tree after tree to what is still missing."""

    def __init__(
        self,
        table: Floats,
        targets: Floats,
        weights: Floats,
        options: SymmetricOptions,
        rng: np.random.Generator,
    ) -> None:
        self.options, self.rng, self.weights = options, rng, weights
        splits = [
            (column, edge)
            for column, values in enumerate(table.T)
            for edge in _thresholds(values, options.bins)
        ]
        self.columns = np.array([column for column, _ in splits] or [0], np.int32)
        self.edges = np.array([edge for _, edge in splits] or [np.inf], np.float32)
        self.above = table[:, self.columns] > self.edges
        """Whether each row is above the threshold of each comparison."""
        total = weights.sum(axis=0)
        self.base = ((targets * weights).sum(axis=0) / np.maximum(total, 1e-9)).astype(np.float32)
        self.missing = targets - self.base

    def fit(self) -> SymmetricTrees:
        options = self.options
        features, thresholds, values = [], [], []
        for _ in range(options.trees):
            chosen, leaves, found = self._tree()
            self.missing -= found[leaves]
            features.append(self.columns[chosen])
            thresholds.append(self.edges[chosen])
            values.append(found)
        return SymmetricTrees(
            np.array(features, np.int32),
            np.array(thresholds, np.float32),
            np.array(values, np.float32),
            self.base,
        )

    def _tree(self) -> tuple[list[int], NDArray[np.intp], Floats]:
        """The comparisons of a tree, the leaf of each row, and the values of the leaves."""
        options, rng = self.options, self.rng
        count, offered = self.above.shape
        rows = np.flatnonzero(rng.random(count) < options.row_share)
        rows = rows if len(rows) else np.arange(count)
        few = max(options.depth, round(options.split_share * offered))
        splits = np.sort(rng.permutation(offered)[:few])
        above = self.above[np.ix_(rows, splits)].astype(np.float32)
        slopes = self.missing[rows] * self.weights[rows]
        weights = self.weights[rows]
        node = np.zeros(len(rows), np.intp)
        chosen: list[int] = []
        for level in range(options.depth):
            gains = np.zeros(len(splits))
            for one in range(1 << level):
                mine = node == one
                if mine.any():
                    gains += self._gains(above[mine], slopes[mine], weights[mine])
            best = int(gains.argmax())
            chosen.append(int(splits[best]))
            node += (above[:, best] > 0).astype(np.intp) << level
        leaves = 1 << options.depth
        sums = np.zeros((leaves, slopes.shape[1]))
        weight = np.zeros((leaves, weights.shape[1]))
        np.add.at(sums, node, slopes)
        np.add.at(weight, node, weights)
        values = (options.shrinkage * sums / (weight + options.ridge)).astype(np.float32)
        powers = 1 << np.arange(options.depth)
        return chosen, (self.above[:, chosen] * powers).sum(axis=1), values

    def _gains(self, above: Floats, slopes: Floats, weights: Floats) -> Doubles:
        """What each comparison gains in one node, over all targets."""
        ridge = self.options.ridge
        high, heavy = above.T @ slopes, above.T @ weights
        low, light = slopes.sum(axis=0) - high, weights.sum(axis=0) - heavy
        gain = high**2 / (heavy + ridge) + low**2 / (np.maximum(light, 0) + ridge)
        found: Doubles = gain.sum(axis=1, dtype=np.float64)
        return found


def _thresholds(values: Floats, most: int) -> list[float]:
    """Thresholds between values, with about the same number of rows between them."""
    distinct = np.unique(values)
    if len(distinct) > most + 1:
        shares = np.quantile(values, np.linspace(0, 1, most + 2)[1:-1])
        distinct = np.unique(np.concatenate([distinct[:1], shares.astype(np.float32)]))
        return [float(one) for one in distinct[:-1]]
    middle = (distinct[:-1].astype(np.float64) + distinct[1:]) / 2
    return [float(one) for one in middle.astype(np.float32)]
