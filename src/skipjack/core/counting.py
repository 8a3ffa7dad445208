"""Exact counting and uniform sampling of legal combinations without enumerating them.

The algorithm is variable elimination: the relations that mention a variable are joined and summed
over it, the cheapest variable first. In reverse order, each variable is then drawn in proportion to
the number of legal combinations that each of its values leads to, so that every draw succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod

import numpy as np

from skipjack.core.constraints import Constraint
from skipjack.core.relations import EliminationStep, Relation, join, sum_out
from skipjack.core.tabulation import Domains, Tabulation
from skipjack.errors import SpaceError

Point = tuple[int, ...]
"""The index of a value in each domain."""


class Counting:
    """The legal combinations of values from finite domains."""

    def __init__(self, domains: Domains, constraints: Sequence[Constraint]) -> None:
        self._names = tuple(domains)
        table = Tabulation(domains, constraints)
        self._sizes = table.sizes
        self._steps: list[EliminationStep] = []
        self._loose: list[str] = []
        self.total = 0
        """The number of legal combinations."""
        if not table.possible:
            return
        tied = {name for relation in table.relations for name in relation.names}
        self._loose = [name for name in table.sizes if name not in tied]
        loose = prod(table.sizes[name] for name in self._loose)
        self.total = loose * self._eliminate(_exact(table.relations, domains), tied)
        # Sampling visits the variables in the reverse order of their elimination.
        self._steps.reverse()

    def draw(self, rng: np.random.Generator) -> Point:
        """One combination, drawn uniformly; there must be at least one."""
        chosen = {name: int(rng.integers(self._sizes[name])) for name in self._loose}
        for step in self._steps:
            chosen[step.name] = step.draw(chosen, rng)
        return self._point(chosen)

    def points(self) -> Iterator[Point]:
        """Every combination once, in a fixed order, without backtracking."""
        if self.total:
            yield from self._walk({}, 0)

    def _walk(self, chosen: dict[str, int], depth: int) -> Iterator[Point]:
        if depth == len(self._loose) + len(self._steps):
            yield self._point(chosen)
            return
        options: Sequence[int]
        if depth < len(self._loose):
            name = self._loose[depth]
            options = range(self._sizes[name])
        else:
            step = self._steps[depth - len(self._loose)]
            name, options = step.name, step.options(chosen)[0].tolist()
        for option in options:
            chosen[name] = option
            yield from self._walk(chosen, depth + 1)

    def _point(self, chosen: dict[str, int]) -> Point:
        return tuple(chosen.get(name, 0) for name in self._names)

    def _eliminate(self, relations: list[Relation], variables: set[str]) -> int:
        remaining = set(variables)
        total = 1
        while remaining:
            name = min(remaining, key=lambda name: (self._cost(name, relations), name))
            remaining.remove(name)
            touching = sorted((r for r in relations if name in r.names), key=lambda r: r.rows)
            relations = [r for r in relations if name not in r.names]
            joined = reduce(lambda left, right: join(left, right, self._sizes), touching)
            if not joined.rows:
                return 0
            rest, step = sum_out(joined, name, self._sizes)
            self._steps.append(step)
            if rest.names:
                relations.append(rest)
            else:
                total *= int(rest.weights[0])
        return total

    def _cost(self, name: str, relations: list[Relation]) -> float:
        """An estimate of the rows of the join over a variable, as databases make it."""
        rows, seen = 1.0, set[str]()
        for relation in relations:
            if name in relation.names:
                rows *= relation.rows
                for other in relation.names:
                    if other in seen:
                        rows /= self._sizes[other]
                    seen.add(other)
        return rows


def _exact(relations: list[Relation], domains: Domains) -> list[Relation]:
    """The relations with weights that cannot overflow: Python integers if int64 may not suffice.

    No count exceeds the number of raw combinations, as added variables are functions of the others.
    """
    if prod(len(values) for values in domains.values()) < 2**62:
        return relations
    return [Relation(r.names, r.columns, r.weights.astype(object)) for r in relations]


def minimal_conflict(domains: Domains, constraints: Sequence[Constraint]) -> list[Constraint]:
    """A set of constraints that no combination satisfies, from which none can be left out."""
    core = list(constraints)
    for constraint in constraints:
        without = [other for other in core if other is not constraint]
        try:
            needless = Counting(domains, without).total == 0
        except SpaceError:  # too large without it: keep it, although the set may not be minimal
            needless = False
        if needless:
            core = without
    return core
