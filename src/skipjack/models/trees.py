"""Ensembles of regression trees in plain arrays. A row of features passes all trees at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skipjack.errors import MalformedError, UsageError

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Integers = NDArray[np.int32]
Places = NDArray[np.intp]
Arrays = Mapping[str, NDArray[Any]]

_INTEGERS = ("roots", "features", "below", "above")
_FLOATS = ("thresholds", "values", "importance")
_CHUNK = 1 << 18
"""Rows times trees that are evaluated at once, so that they stay in the cache."""


@dataclass(frozen=True, slots=True)
class TreeEnsemble:
    """The sum of the leaf values of all trees.

    Nodes of all trees are in one list; a leaf has an infinite threshold and leads to itself.
    """

    roots: Integers
    features: Integers
    """The feature that each node compares with its threshold."""
    thresholds: Floats
    below: Integers
    """The next node for features up to the threshold."""
    above: Integers
    values: Floats
    """The values of leaves."""
    depth: int
    importance: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    """Each feature's share of the loss that splits removed; empty if it is not known."""

    def predict(self, rows: ArrayLike) -> Floats:
        """The estimate for each row of features."""
        return self.sums(rows).astype(np.float32)

    def sums(self, rows: ArrayLike) -> Doubles:
        """The same in double precision."""
        table = np.asarray(rows, np.float32)
        if table.ndim != 2 or (self.importance.size and table.shape[1] != self.importance.size):
            width = self.importance.size or "equally many"
            raise UsageError(f"trees need rows of {width} features, not an array {table.shape}")
        found = np.zeros(len(table))
        step = max(1, _CHUNK // max(1, len(self.roots)))
        for start in range(0, len(table), step):
            part = table[start : start + step]
            found[start : start + step] = self.values[self._leaves(part)].sum(
                axis=1, dtype=np.float64
            )
        return found

    def _leaves(self, table: Floats) -> Places:
        """The leaf of each tree that each row ends in."""
        count, width = table.shape
        flat = np.ascontiguousarray(table).ravel()
        first = np.arange(0, count * width, width)[:, None]
        at: Places = np.repeat(self.roots[None].astype(np.intp), count, axis=0)
        # Both children in one array: one lookup for each step.
        children = np.stack([self.above, self.below], axis=1).ravel().astype(np.intp)
        for _ in range(self.depth):
            low = flat.take(self.features.take(at) + first) <= self.thresholds.take(at)
            at = children.take(2 * at + low)
        return at

    def arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Everything as arrays, for a file of NumPy's; `of` reads them."""
        found = {prefix + name: getattr(self, name) for name in (*_INTEGERS, *_FLOATS)}
        return {**found, f"{prefix}depth": np.array(self.depth, np.int32)}

    @classmethod
    def of(cls, arrays: Arrays, where: str, prefix: str = "") -> TreeEnsemble:
        """The ensemble in `arrays`; `MalformedError`, which names `where`, if it is damaged."""
        kinds = dict.fromkeys(_INTEGERS, "iu") | dict.fromkeys(_FLOATS, "f") | {"depth": "iu"}
        for name, kind in kinds.items():
            array = arrays.get(prefix + name)
            if array is None or array.dtype.kind not in kind or array.ndim != (name != "depth"):
                raise MalformedError(f"{where} has no valid array {prefix + name} of its trees")
        read: dict[str, Any] = {
            **{name: arrays[prefix + name].astype(np.int32) for name in _INTEGERS},
            **{name: arrays[prefix + name].astype(np.float32) for name in _FLOATS},
        }
        found = cls(**read, depth=int(arrays[f"{prefix}depth"]))
        found.check(where)
        return found

    def check(self, where: str) -> None:
        """Raise `MalformedError`, which names `where`, unless every path ends in a leaf."""
        nodes = len(self.features)
        per_node = (self.features, self.thresholds, self.below, self.above, self.values)
        whole = nodes > 0 and all(len(one) == nodes for one in per_node)
        places = (self.roots, self.below, self.above)
        inside = all(one.size and one.min() >= 0 and one.max() < nodes for one in places)
        if not (whole and inside and 0 <= self.depth <= nodes):
            raise MalformedError(f"{where} is damaged: nodes of its trees do not exist")
        width = self.importance.size
        if self.features.min() < 0 or (width and self.features.max() >= width):
            raise MalformedError(f"{where} is damaged: its trees compare features that no row has")
        here = np.arange(nodes)
        leaf = np.isinf(self.thresholds)
        stay = (self.below == here) & (self.above == here)
        at = self.roots
        for _ in range(self.depth):
            at = np.unique(np.concatenate([self.below[at], self.above[at]]))
        if not (stay[leaf].all() and leaf[at].all()):
            raise MalformedError(f"{where} is damaged: paths in its trees do not end in leaves")
        if np.isnan(self.thresholds).any() or not np.isfinite(self.values).all():
            raise MalformedError(f"{where} is damaged: its trees contain numbers that are none")
