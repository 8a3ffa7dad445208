"""Gradient boosting with NumPy alone.

Searches refit their models while they run, and the base install has NumPy and llvmlite only, hence
not LightGBM. Features are sorted into bins once; all nodes of a level, of several ensembles if need
be, share one histogram and one search for splits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skipjack.errors import UsageError
from skipjack.models.trees import Doubles, Floats, Places, TreeEnsemble


class Loss(StrEnum):
    """What trees are fitted to."""

    SQUARED = "squared"
    """Any numbers; predictions are in their unit."""
    LOGISTIC = "logistic"
    """Labels from 0 to 1; predictions are log-odds, see `probabilities`."""


@dataclass(frozen=True, slots=True)
class BoostingOptions:
    """How trees are fitted."""

    trees: int = 100
    depth: int = 4
    """The most comparisons from a root to a leaf."""
    shrinkage: float = 0.1
    """The share of each tree's correction that is applied."""
    least_rows: int = 3
    """The fewest rows of a leaf."""
    ridge: float = 1.0
    """Added to the weight of each leaf, which draws the values of small leaves to zero."""
    column_share: float = 1.0
    """The share of features that each tree may use; of several ensembles, the same ones."""
    row_share: float = 1.0
    """The share of rows that each tree is fitted to."""
    bins: int = 32
    """The most intervals that a feature's values are divided into."""
    loss: Loss = Loss.SQUARED

    def __post_init__(self) -> None:
        counts = {"trees": self.trees, "least_rows": self.least_rows}
        shares = {"column_share": self.column_share, "row_share": self.row_share}
        for name, count in counts.items():
            if count < 1:
                raise UsageError(f"{name} of boosted trees must be at least 1, not {count}")
        for name, share in {**shares, "shrinkage": self.shrinkage}.items():
            if not 0 < share <= 1:
                raise UsageError(f"{name} of boosted trees must be above 0, up to 1, not {share}")
        if not 0 <= self.depth <= 16:
            raise UsageError(f"depth of boosted trees must be from 0 to 16, not {self.depth}")
        if not 2 <= self.bins <= 256:
            raise UsageError(f"bins of boosted trees must be from 2 to 256, not {self.bins}")
        if not self.ridge >= 0:
            raise UsageError(f"ridge of boosted trees must not be negative, but is {self.ridge}")


def probabilities(log_odds: ArrayLike) -> Doubles:
    """Probabilities, from what trees fitted with a logistic loss predict."""
    found: Doubles = 1 / (1 + np.exp(-np.clip(np.asarray(log_odds, np.float64), -30, 30)))
    return found


def fit_trees(
    rows: ArrayLike,
    targets: ArrayLike,
    options: BoostingOptions | None = None,
    *,
    weights: ArrayLike | None = None,
    seed: int = 0,
) -> TreeEnsemble:
    """Fit trees to a number for each row of features; the same arguments give the same trees."""
    return fit_ensembles(rows, [targets], options, weights=[weights], seed=seed)[0]


def fit_ensembles(
    rows: ArrayLike,
    targets: list[ArrayLike],
    options: BoostingOptions | None = None,
    *,
    weights: list[ArrayLike | None] | None = None,
    seed: int = 0,
) -> list[TreeEnsemble]:
    """Fit several ensembles to the same rows at once, which costs little more than one of them.

    Args:
        rows: a row of features for each target.
        targets: the targets of each ensemble.
        options: how all of them are fitted.
        weights: the weights of rows in each ensemble. Rows with weight 0 are left out.
        seed: of the choice of rows and features.
    """
    options = options or BoostingOptions()
    table = _table(rows)
    wanted = np.stack([_row_values(one, table, "targets") for one in targets])
    weighed = np.ones_like(wanted)
    for at, one in enumerate(weights or ()):
        if one is not None:
            weighed[at] = _row_values(one, table, "weights")
    if (weighed < 0).any() or not (weighed.sum(axis=1) > 0).all():
        raise UsageError("weights of rows must not be negative, and not all be 0")
    if options.loss is Loss.LOGISTIC and not ((wanted >= 0) & (wanted <= 1)).all():
        raise UsageError("a logistic loss needs targets from 0 to 1")
    return _Boosting(table, wanted, weighed, options, np.random.default_rng(seed)).fit()


def _table(rows: ArrayLike) -> Floats:
    table = np.asarray(rows, np.float32)
    if table.ndim != 2 or not len(table) or not table.shape[1]:
        raise UsageError(f"trees are fitted to rows of features, not to an array {table.shape}")
    if not np.isfinite(table).all():
        raise UsageError("trees are fitted to finite features; replace NaN and infinity")
    return table


def _row_values(values: ArrayLike, table: Floats, what: str) -> Doubles:
    found = np.asarray(values, np.float64)
    if found.shape != (len(table),) or not np.isfinite(found).all():
        raise UsageError(f"{what} of trees must be {len(table)} finite numbers, one for each row")
    return found


_Nodes = dict[str, NDArray[Any]]
"""Nodes of trees: their members, whether they are roots, and what `TreeEnsemble` has of nodes."""
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class _Level:
    """The nodes of one level of the trees that are growing."""

    here: Places
    """The node of each place that the trees are fitted to."""
    total: Doubles
    weight: Doubles


class _Bins:
    """The features of all rows as numbers of bins. Constant features have none."""

    def __init__(self, table: Floats, most: int) -> None:
        edges = [_edges(column, most) for column in table.T]
        used = [at for at, found in enumerate(edges) if len(found)]
        self._edges = {at: edges[at] for at in used}
        ranks = np.empty((len(table), len(used)), np.intp)
        for place, at in enumerate(used):
            ranks[:, place] = np.searchsorted(edges[at], table[:, at])
        self._ranks = ranks
        self._number(used)

    def only(self, places: Places) -> _Bins:
        """The same with some of the features, by their places among those that vary."""
        part = object.__new__(_Bins)
        used = [*self._edges]
        part._edges = {used[at]: self._edges[used[at]] for at in places.tolist()}
        part._ranks = self._ranks[:, places]
        part._number([*part._edges])
        return part

    def _number(self, used: list[int]) -> None:
        edges = self._edges
        sizes = [len(edges[at]) + 1 for at in used]
        starts = np.cumsum([0, *sizes])
        self.total = int(starts[-1])
        """The number of bins of all features."""
        self.codes: Places = self._ranks + starts[:-1]
        # Splits: each edge of each feature.
        self.thresholds = np.concatenate([edges[at] for at in used] or [np.zeros(0, np.float32)])
        self.columns = np.repeat(np.arange(len(used)), [size - 1 for size in sizes])
        """The column of `codes` that each split divides."""
        self.features = np.array(used, np.int32)[self.columns]
        self.starts = starts[self.columns]
        """The first bin of the feature that each split divides."""
        self.last = np.arange(len(self.thresholds)) + self.columns
        """The last bin below each split."""


def _edges(column: Floats, most: int) -> Floats:
    """Thresholds between the values of a feature."""
    values, counts = np.unique(column, return_counts=True)
    if len(values) > most:
        # The same number of rows in each bin, as far as equal values allow.
        share = (np.cumsum(counts) * most - 1) // len(column)
        cuts = np.flatnonzero(np.diff(share))
    else:
        cuts = np.arange(len(values) - 1)
    middle = (values[cuts].astype(np.float64) + values[cuts + 1]) / 2
    edges = middle.astype(np.float32)
    return np.where(edges < values[cuts + 1], edges, values[cuts])


class _Boosting:
    """Fits ensembles in parallel: tree by tree, and each tree level by level."""

    def __init__(
        self,
        table: Floats,
        targets: Doubles,
        weights: Doubles,
        options: BoostingOptions,
        rng: np.random.Generator,
    ) -> None:
        self.options, self.rng = options, rng
        self.targets, self.weights = targets, weights
        self.members, self.count = targets.shape
        self.bins = _Bins(table, options.bins)
        # Every row of every member has a place.
        self.row = np.tile(np.arange(self.count), self.members)
        self.member = np.repeat(np.arange(self.members), self.count)
        squared = options.loss is Loss.SQUARED
        self.plain = squared and bool(np.isin(weights, (0, 1)).all())
        """Whether the weight of a node is its number of rows."""
        self.size = 0
        """The number of nodes so far, of all members."""
        self.importance = np.zeros((self.members, table.shape[1]))

    def fit(self) -> list[TreeEnsemble]:
        base = (self.targets * self.weights).sum(axis=1) / self.weights.sum(axis=1)
        if self.options.loss is Loss.LOGISTIC:
            share = np.clip(base, 1e-3, 1 - 1e-3)
            base = np.log(share / (1 - share))
        sums = np.repeat(base[:, None], self.count, axis=1)
        trees = []
        for number in range(self.options.trees):
            start = self.size
            nodes, leaves = self._grow(*self._slopes(sums), self._sampled())
            nodes["values"] *= self.options.shrinkage
            sums += nodes["values"][leaves - start].reshape(sums.shape)
            if not number:
                nodes["values"] += base[nodes["member"]]
            trees.append(nodes)
        return self._ensembles({name: np.concatenate([t[name] for t in trees]) for name in nodes})

    def _slopes(self, sums: Doubles) -> tuple[Doubles, Doubles]:
        """What is missing at each place, and the weight of that."""
        if self.options.loss is Loss.SQUARED:
            return ((self.targets - sums) * self.weights).ravel(), self.weights.ravel()
        chance = probabilities(sums)
        slopes = (self.targets - chance) * self.weights
        return slopes.ravel(), (chance * (1 - chance) * self.weights).ravel()

    def _sampled(self) -> Places:
        """The places that the next trees are fitted to."""
        chosen = self.weights > 0
        if self.options.row_share < 1:
            drawn = self.rng.random(chosen.shape)
            # The smallest draw of each member is always in.
            least = np.where(chosen, drawn, 2).min(axis=1, keepdims=True)
            chosen = chosen & ((drawn < self.options.row_share) | (drawn == least))
        return np.flatnonzero(chosen.ravel())

    def _drawn_bins(self) -> _Bins:
        """The features that the next trees may use, the same ones for all members."""
        used = self.bins.codes.shape[1]
        keep = max(1, round(self.options.column_share * used))
        if keep >= used:
            return self.bins
        return self.bins.only(np.sort(self.rng.permutation(used)[:keep]))

    def _grow(self, slopes: Doubles, weights: Doubles, sampled: Places) -> tuple[_Nodes, Places]:
        """A tree for each member: its nodes, and the leaf at each place."""
        options, bins = self.options, self._drawn_bins()
        floor = 1e-12 * float(slopes @ slopes)
        leaves = np.empty(len(slopes), np.intp)
        slots: Places = self.member.copy()  # the node of each place among those of its level
        places = np.arange(len(slots))  # those that have not reached a leaf
        member = np.arange(self.members)  # the member of each node of the level
        levels: list[_Nodes] = []
        while len(member):
            here = slots[sampled]
            total: Doubles = np.bincount(here, slopes[sampled], len(member)).astype(np.float64)
            weight: Doubles = np.bincount(here, weights[sampled], len(member)).astype(np.float64)
            split = np.zeros(len(member), np.bool_)
            best = np.zeros(len(member), np.intp)
            if len(levels) < options.depth and len(bins.thresholds):
                level = _Level(here, total, weight)
                best, gain = self._best_splits(bins, level, sampled, slopes, weights)
                split = gain > floor
                np.add.at(self.importance, (member[split], bins.features[best[split]]), gain[split])
            own = self.size + np.arange(len(member))
            self.size += len(member)
            child = 2 * (np.cumsum(split) - 1)  # the first child of each node that is split
            found = bins.features.size > 0
            levels.append(
                {
                    "member": member,
                    "root": np.full(len(member), not levels),
                    "features": np.where(split, bins.features[best], 0) if found else 0 * own,
                    "thresholds": np.where(split, bins.thresholds[best] if found else 0, np.inf),
                    "below": np.where(split, self.size + child, own),
                    "above": np.where(split, self.size + child + 1, own),
                    "values": np.where(split, 0, total / (weight + options.ridge + _TINY)),
                }
            )
            node = slots[places]
            inner = split[node]
            leaves[places[~inner]] = own[node[~inner]]
            places, node = places[inner], node[inner]
            if not len(places):
                break
            cut = best[node]
            high = bins.codes[self.row[places], bins.columns[cut]] > bins.last[cut]
            slots[places] = child[node] + high
            sampled = sampled[split[here]]
            member = np.repeat(member[split], 2)
        return {name: np.concatenate([one[name] for one in levels]) for name in levels[0]}, leaves

    def _best_splits(
        self, bins: _Bins, level: _Level, sampled: Places, slopes: Doubles, weights: Doubles
    ) -> tuple[Places, Doubles]:
        """The best split of each node of a level, and what it gains."""
        nodes, ridge = len(level.total), self.options.ridge + _TINY
        index = (bins.codes[self.row[sampled]] + (level.here * bins.total)[:, None]).ravel()

        def below(values: Doubles | None) -> Doubles:
            """Sums over the places below each split of each node; numbers of places for None."""
            each = None if values is None else np.repeat(values[sampled], bins.codes.shape[1])
            sums = np.zeros((nodes, bins.total + 1))
            found = np.bincount(index, each, nodes * bins.total).reshape(nodes, bins.total)
            np.cumsum(found, axis=1, out=sums[:, 1:])
            result: Doubles = sums[:, bins.last + 1] - sums[:, bins.starts]
            return result

        count, low = below(None), below(slopes)
        low_weight = count if self.plain else below(weights)
        high, high_weight = level.total[:, None] - low, level.weight[:, None] - low_weight
        without = level.total**2 / (level.weight + ridge)
        gain = low**2 / (low_weight + ridge) + high**2 / (high_weight + ridge) - without[:, None]
        rows = np.bincount(level.here, minlength=nodes)[:, None]
        least = self.options.least_rows
        gain[(gain < 0) | (count < least) | (rows - count < least)] = 0
        # Rounded, so that the order of additions does not decide between equal splits.
        scale = np.maximum(gain.max(axis=1, keepdims=True), 1e-300)
        best = np.round(gain / scale, 9).argmax(axis=1)
        return best, gain[np.arange(nodes), best]

    def _ensembles(self, nodes: _Nodes) -> list[TreeEnsemble]:
        """The nodes of each member, numbered anew."""
        shares = self.importance / np.maximum(self.importance.sum(axis=1, keepdims=True), 1e-300)
        ensembles = []
        for member in range(self.members):
            mine = nodes["member"] == member
            number = np.cumsum(mine) - 1
            ensembles.append(
                TreeEnsemble(
                    roots=number[mine & nodes["root"]].astype(np.int32),
                    features=nodes["features"][mine].astype(np.int32),
                    thresholds=nodes["thresholds"][mine].astype(np.float32),
                    below=number[nodes["below"][mine]].astype(np.int32),
                    above=number[nodes["above"][mine]].astype(np.int32),
                    values=nodes["values"][mine].astype(np.float32),
                    depth=self.options.depth,
                    importance=shares[member].astype(np.float32),
                )
            )
        return ensembles
