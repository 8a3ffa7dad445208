"""From constraints to relations.

A constraint over few combinations is tabulated outright. The parts of a larger expression become
variables of their own, whose domain is the set of values the part can take:
``e * f * g * h <= 1000`` turns into the small relations ``x = e * f``, ``y = x * g`` and
``y * h <= 1000``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from skipjack.core.array_expressions import Array, evaluate_node, mistake_in, narrow, truth
from skipjack.core.config import Value
from skipjack.core.constraints import CallableConstraint, Constraint
from skipjack.core.expressions import Apply, Constant, Name, Node, names_of
from skipjack.core.relations import MAX_ROWS, Relation, refuse_size
from skipjack.errors import ExpressionError, SpaceError

SMALL_GRID = 100_000
"""A part over more combinations than this is split where that helps."""

TINY_GRID = 64
"""Up to here single values are faster than arrays."""

MAX_CALLS = 2_000_000
"""A Python function is called for each combination, at about a million a second."""

Domains = Mapping[str, Sequence[Value]]


class Tabulation:
    """The relations of constraints over domains, with the variables that were added on the way.

    Variables with one value only are put in as constants and appear in no relation.
    """

    def __init__(self, domains: Domains, constraints: Sequence[Constraint]) -> None:
        self.sizes: dict[str, int] = {n: len(v) for n, v in domains.items() if len(v) > 1}
        self.relations: list[Relation] = []
        self.possible = all(map(len, domains.values()))
        """False if a domain is empty or a constraint without free variables is broken."""
        self._domains = domains
        self._arrays: dict[str, Array] = {}
        self._parts: dict[str, Name] = {}
        for constraint in constraints:
            if self.possible:
                self._add(constraint)

    def _add(self, constraint: Constraint) -> None:
        free = tuple(name for name in constraint.names if name in self.sizes)
        if not free:
            values = {name: self._domains[name][0] for name in constraint.names}
            self.possible = self.possible and constraint.holds(values)
        elif isinstance(constraint, CallableConstraint) or self._grid(free) <= TINY_GRID:
            self._call(constraint, free)
        else:
            for conjunct in _conjuncts(constraint.expression.node):
                self._tabulate(conjunct, constraint.text)

    def _call(self, constraint: Constraint, free: tuple[str, ...]) -> None:
        size = self._grid(free)
        if size > MAX_CALLS:
            raise SpaceError(
                f"constraint `{constraint.text}` would be called for {size:.1e} combinations, more "
                f"than {MAX_CALLS:.0e}; write it as an expression or over fewer parameters"
            )
        values = {name: self._domains[name][0] for name in constraint.names}
        holds = np.zeros([self.sizes[name] for name in free], np.bool_)
        flat = holds.reshape(-1)
        for at, point in enumerate(product(*(self._domains[name] for name in free))):
            values.update(zip(free, point, strict=True))
            flat[at] = constraint.holds(values)
        self._keep(free, holds)

    def _tabulate(self, node: Node, text: str) -> None:
        node = self._split(node)
        free = self._free(node)
        result = evaluate_node(node, self._axes(node, free))
        mistake = mistake_in(result)
        if mistake is not None:
            raise ExpressionError(f"constraint `{text}` has no value: {mistake.reason}")
        shape = [self.sizes[name] for name in free]
        holds = np.broadcast_to(truth(result), shape)
        if free:
            self._keep(free, holds)
        else:
            self.possible = self.possible and bool(holds)

    def _keep(self, names: tuple[str, ...], holds: Array) -> None:
        columns = tuple(column.astype(np.int64) for column in np.nonzero(holds))
        self.relations.append(Relation(names, columns, np.ones(len(columns[0]), np.int64)))

    def _split(self, node: Node) -> Node:
        """The node with parts replaced by variables until it is over few enough combinations."""
        if not isinstance(node, Apply):
            return node
        arguments = [self._split(argument) for argument in node.arguments]
        while True:
            together = Apply(node.operator, tuple(arguments))
            size = self._grid(self._free(together))
            largest = max(range(len(arguments)), key=lambda at: self._weight(arguments[at]))
            # Splitting a part off pays only if it is not as large as the whole.
            alone = self._grid(self._free(arguments[largest])) == size
            if size <= SMALL_GRID or alone or not self._weight(arguments[largest]):
                return together
            arguments[largest] = self._variable(arguments[largest])

    def _weight(self, node: Node) -> int:
        return self._grid(self._free(node)) if isinstance(node, Apply) else 0

    def _variable(self, part: Node) -> Name:
        """A variable for the value of a part; equal parts share one."""
        text = repr(part)  # unlike the node itself it tells 1 from 1.0 and True
        if text in self._parts:
            return self._parts[text]
        free = self._free(part)
        grid = np.broadcast_to(
            np.asarray(evaluate_node(part, self._axes(part, free))),
            [self.sizes[name] for name in free],
        )
        distinct, inverse = _distinct(grid)
        name = Name(f"#{len(self._parts)}")
        self._parts[text] = name
        self._arrays[name.name] = distinct
        self.sizes[name.name] = len(distinct)
        columns = (*(axis.reshape(-1) for axis in np.indices(grid.shape)), inverse)
        self.relations.append(Relation((*free, name.name), columns, np.ones(grid.size, np.int64)))
        return name

    def _free(self, node: Node) -> tuple[str, ...]:
        return tuple(sorted(name for name in names_of(node) if name in self.sizes))

    def _grid(self, names: tuple[str, ...]) -> int:
        return prod(self.sizes[name] for name in names)

    def _axes(self, node: Node, free: tuple[str, ...]) -> dict[str, Any]:
        """What each name stands for: its values along an axis of its own, or its only value."""
        size = self._grid(free)
        if size > MAX_ROWS:
            raise refuse_size(free, size)
        axes: dict[str, Any] = {}
        for name in names_of(node):
            if name in free:
                shape = [1] * len(free)
                shape[free.index(name)] = -1
                axes[name] = self._array(name).reshape(shape)
            else:
                axes[name] = self._domains[name][0]
        return axes

    def _array(self, name: str) -> Array:
        if name not in self._arrays:
            values = np.empty(len(self._domains[name]), object)
            values[:] = self._domains[name]
            self._arrays[name] = narrow(values)
        return self._arrays[name]


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Apply) and node.operator == "and":
        for argument in node.arguments:
            yield from _conjuncts(argument)
    elif not (isinstance(node, Constant) and node.value):
        yield node


def _distinct(grid: Array) -> tuple[Array, Array]:
    """The distinct values, and for each element of the grid the index of its value."""
    flat = grid.reshape(-1)
    if flat.dtype != object:
        values, inverse = np.unique(flat, return_inverse=True)
        return values, inverse.reshape(-1).astype(np.int64)
    index: dict[tuple[type, Any], int] = {}
    inverse = np.fromiter(
        (index.setdefault((type(value), value), len(index)) for value in flat), np.int64, flat.size
    )
    values = np.empty(len(index), object)
    values[:] = [value for _, value in index]
    return values, inverse
