"""Weighted relations: rows of value indices with a count each, joined and summed with NumPy.

They are the factor tables of counting by variable elimination. Illegal rows are left out, so that
the size of a relation is the number of legal combinations, not of all combinations.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.errors import SpaceError

MAX_ROWS = 20_000_000
"""Maximum number of rows of a relation, which limits its memory."""

Ints = npt.NDArray[np.int64]
Weights = npt.NDArray[Any]
"""int64, or Python integers in an object array if counts may exceed it."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows of indices into the domains of `names`, each with the number of ways to obtain it."""

    names: tuple[str, ...]
    columns: tuple[Ints, ...]
    weights: Weights

    @property
    def rows(self) -> int:
        """The number of possible combinations."""
        return len(self.weights)

    def column(self, name: str) -> Ints:
        return self.columns[self.names.index(name)]


def refuse_size(names: tuple[str, ...], rows: float) -> SpaceError:
    """The error for constraints that relate too many combinations."""
    return SpaceError(
        f"the constraints tie {', '.join(names)} together in {rows:.1e} combinations, "
        f"more than {MAX_ROWS:.0e}; use fewer values or constraints over fewer parameters"
    )


def join(left: Relation, right: Relation, sizes: Mapping[str, int]) -> Relation:
    """All pairs of rows that agree in the shared variables; counts are multiplied."""
    shared = tuple(name for name in left.names if name in right.names)
    added = tuple(name for name in right.names if name not in shared)
    codes = encode(right, shared, sizes)
    order = np.argsort(codes, kind="stable")
    left_codes = encode(left, shared, sizes)
    first = np.searchsorted(codes, left_codes, "left", sorter=order)
    matches = np.searchsorted(codes, left_codes, "right", sorter=order) - first
    total = int(matches.sum())
    if total > MAX_ROWS:
        raise refuse_size((*left.names, *added), total)
    from_left = np.repeat(np.arange(left.rows), matches)
    within = np.arange(total) - np.repeat(np.cumsum(matches) - matches, matches)
    from_right = order[np.repeat(first, matches) + within]
    columns = (
        *(column[from_left] for column in left.columns),
        *(right.column(name)[from_right] for name in added),
    )
    weights = left.weights[from_left] * right.weights[from_right]
    return Relation((*left.names, *added), columns, weights)


def encode(relation: Relation, names: tuple[str, ...], sizes: Mapping[str, int]) -> Ints:
    """One number for each row, which encodes its indices of `names`."""
    if prod(sizes[name] for name in names) >= 2**62:
        raise refuse_size(names, prod(float(sizes[name]) for name in names))
    codes = np.zeros(relation.rows, np.int64)
    for name in names:
        codes = codes * sizes[name] + relation.column(name)
    return codes


@dataclass(frozen=True, slots=True)
class EliminationStep:
    """How to choose one variable after the variables in `scope`: undoes an elimination."""

    name: str
    scope: tuple[str, ...]
    scope_sizes: tuple[int, ...]
    codes: Ints
    """One for each combination of the scope that can be completed, ascending."""
    bounds: Ints
    """The range of rows of each code."""
    choices: Ints
    weights: Weights

    def options(self, chosen: Mapping[str, int]) -> tuple[Ints, Weights]:
        """Possible values of the variable, and the number of ways to complete each."""
        code = 0
        for name, size in zip(self.scope, self.scope_sizes, strict=True):
            code = code * size + chosen[name]
        group = int(np.searchsorted(self.codes, code))
        begin, end = int(self.bounds[group]), int(self.bounds[group + 1])
        return self.choices[begin:end], self.weights[begin:end]

    def draw(self, chosen: Mapping[str, int], rng: np.random.Generator) -> int:
        """One choice, drawn in proportion to the counts."""
        choices, weights = self.options(chosen)
        sums = weights.cumsum()
        at = draw_below(int(sums[-1]), rng)
        if weights.dtype == object:
            return int(choices[bisect_right(sums.tolist(), at)])
        return int(choices[int(np.searchsorted(sums, at, "right"))])


def sum_out(
    relation: Relation, name: str, sizes: Mapping[str, int]
) -> tuple[Relation, EliminationStep]:
    """The relation summed over one variable, and the step that undoes it."""
    scope = tuple(other for other in relation.names if other != name)
    codes = encode(relation, scope, sizes)
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1]))[: len(codes)])
    weights = relation.weights[order]
    step = EliminationStep(
        name=name,
        scope=scope,
        scope_sizes=tuple(sizes[other] for other in scope),
        codes=codes[starts],
        bounds=np.append(starts, len(codes)),
        choices=relation.column(name)[order],
        weights=weights,
    )
    sums = np.add.reduceat(weights, starts) if len(starts) else weights
    columns = tuple(relation.column(other)[order][starts] for other in scope)
    return Relation(scope, columns, sums), step


def draw_below(bound: int, rng: np.random.Generator) -> int:
    """A uniform integer in ``[0, bound)``; the bound may exceed 64 bits."""
    if bound < 2**63:
        return int(rng.integers(bound))
    bits = bound.bit_length()
    while True:  # each try succeeds with a chance of at least one half
        drawn = int.from_bytes(rng.bytes((bits + 7) // 8), "little") >> (-bits % 8)
        if drawn < bound:
            return drawn
