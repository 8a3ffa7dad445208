"""Constraints as tables: expressions evaluated on NumPy arrays, and the relations that result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core.config import Value
from skipjack.core.constraints import CallableConstraint, Constraint
from skipjack.core.expressions import Apply, Constant, Name, Node, names_of
from skipjack.core.operators import SCALAR, Undefined
from skipjack.core.relations import MAX_ROWS, Relation, refuse_size
from skipjack.errors import ExpressionError, SpaceError

# Expressions on NumPy arrays, element by element, with the same results as on single values.

EXACT = 2**53
"""Whole numbers below this are the same in int64 and float64."""

Array = npt.NDArray[Any]


def evaluate_node(node: Node, values: Mapping[str, Any]) -> Any:
    """The value of a node whose names stand for single values or for arrays that broadcast.

    Elements of the result may be `Undefined`.
    """
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Name):
        return values[node.name]
    return _apply(node.operator, [evaluate_node(argument, values) for argument in node.arguments])


def _apply(operator: str, arguments: Sequence[Any]) -> Any:
    """Apply an operator element by element to single values and arrays that broadcast."""
    if not any(isinstance(argument, np.ndarray) for argument in arguments):
        return SCALAR[operator](*arguments)
    fast = _fast(operator, arguments)
    return fast if fast is not None else _slow(operator, arguments)


def truth(values: Any) -> npt.NDArray[np.bool_]:
    """Which elements are true; undefined ones count as false."""
    array = np.asarray(values)
    if array.dtype != object:
        return array.astype(np.bool_)
    holds = np.frompyfunc(lambda value: type(value) is not Undefined and bool(value), 1, 1)
    return np.asarray(holds(array)).astype(np.bool_)


def first_mistake(values: Any) -> Undefined | None:
    """The first element that is a mistake, or None."""
    array = np.asarray(values)
    if array.dtype != object:
        return None
    return next((v for v in array.flat if type(v) is Undefined and v.mistake), None)


def narrow(array: Array) -> Array:
    """The same values in a dtype that computes fast, if it represents them exactly."""
    kinds = set(map(type, array.flat))
    if kinds == {bool}:
        return array.astype(np.bool_)
    if kinds == {float}:
        return array.astype(np.float64)
    if kinds == {int} and max(map(abs, array.flat)) < EXACT:
        return array.astype(np.int64)
    return array


def _slow(operator: str, arguments: Sequence[Any]) -> Array:
    # A tuple on the right of `in` must not be broadcast over the elements.
    spread = [a for a in arguments if not isinstance(a, tuple)]
    fixed = [a for a in arguments if isinstance(a, tuple)]
    function = np.frompyfunc(lambda *values: SCALAR[operator](*values, *fixed), len(spread), 1)
    objects = [a.astype(object) if isinstance(a, np.ndarray) else a for a in spread]
    return narrow(np.asarray(function(*objects), dtype=object))


def _fast(operator: str, arguments: Sequence[Any]) -> Any:
    """The result by NumPy if it is certain to equal Python's, else None."""
    if operator in ("and", "or", "not"):
        kinds = {_kind(argument) for argument in arguments}
        return _LOGIC[operator](*arguments) if kinds == {"b"} else None
    if operator == "if":
        condition, *branches = arguments
        alike = len({_kind(branch) for branch in branches}) == 1 and _kind(branches[0]) in "bif"
        return np.where(condition, *branches) if alike and _kind(condition) == "b" else None
    if operator in ("in", "not in"):
        value, choices = arguments
        alike = {_kind(value), *map(_kind, choices)} == {"i"}
        return np.isin(value, choices, invert=operator == "not in") if alike else None
    kinds = {_kind(argument) for argument in arguments}
    if not kinds <= ({"b", "i"} if operator in _WHOLE else {"b", "i", "f"}):
        return None
    function = _WHOLE.get(operator) or _NUMBERS.get(operator)
    if function is None or (operator in ("/", "//", "%") and not np.all(arguments[1])):
        return None
    values = [_plain(argument) for argument in arguments]
    with np.errstate(all="ignore"):
        result = function(*values)
    return result if _small(result) else None


def _kind(value: Any) -> str:
    """``b``, ``i`` or ``f`` if NumPy computes the value as Python does, else ``O``."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind if _small(value) else "O"
    if isinstance(value, int) and abs(value) >= EXACT:
        return "O"
    return {bool: "b", int: "i", float: "f"}.get(type(value), "O")


def _plain(value: Any) -> Any:
    return np.asarray(value, np.float64 if _kind(value) == "f" else np.int64)


def _small(result: Any) -> bool:
    array = np.asarray(result)
    return array.dtype.kind != "i" or array.size == 0 or int(np.abs(array).max()) < EXACT


def _multiply(left: Any, right: Any) -> Any:
    # A product of two exact numbers may wrap around int64, so it is bounded in float64 first.
    if not np.size(left) or not np.size(right):
        return np.multiply(left, right)
    bound = float(np.abs(left).max()) * float(np.abs(right).max())
    whole = np.asarray(left).dtype.kind == np.asarray(right).dtype.kind == "i"
    return np.asarray(2 * EXACT) if whole and bound >= EXACT else np.multiply(left, right)


_LOGIC: dict[str, Callable[..., Any]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
}
_NUMBERS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": _multiply,
    "/": np.true_divide,
    "neg": np.negative,
    "pos": np.positive,
    "abs": np.abs,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_WHOLE: dict[str, Callable[..., Any]] = {
    "//": np.floor_divide,
    "%": np.remainder,
    "min": np.minimum,
    "max": np.maximum,
    "gcd": np.gcd,
}


# Constraints as relations.
#
# A constraint over few combinations is tabulated directly. The parts of a larger expression become
# auxiliary variables, whose domain is the set of possible values of the part:
# ``e * f * g * h <= 1000`` turns into the small relations ``x = e * f``, ``y = x * g`` and
# ``y * h <= 1000``.

SMALL_GRID = 100_000
"""A part over more combinations than this is split if that helps."""

TINY_GRID = 64
"""Up to this number of combinations, single values are faster than arrays."""

MAX_CALLS = 2_000_000
"""Maximum number of calls of a Python function, at about a million per second."""

Domains = Mapping[str, Sequence[Value]]


class Tabulation:
    """The relations of constraints over domains, including auxiliary variables.

    Variables with a single value are treated as constants and are in no relation.
    """

    def __init__(self, domains: Domains, constraints: Sequence[Constraint]) -> None:
        self.sizes: dict[str, int] = {n: len(v) for n, v in domains.items() if len(v) > 1}
        self.relations: list[Relation] = []
        self.possible = all(map(len, domains.values()))
        """False if a domain is empty or a constraint without free variables is violated."""
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
        mistake = first_mistake(result)
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
        """The node, with parts replaced by variables until it has few enough combinations."""
        if not isinstance(node, Apply):
            return node
        arguments = [self._split(argument) for argument in node.arguments]
        while True:
            together = Apply(node.operator, tuple(arguments))
            size = self._grid(self._free(together))
            largest = max(range(len(arguments)), key=lambda at: self._weight(arguments[at]))
            # Splitting off a part helps only if it has fewer combinations than the whole.
            alone = self._grid(self._free(arguments[largest])) == size
            if size <= SMALL_GRID or alone or not self._weight(arguments[largest]):
                return together
            arguments[largest] = self._variable(arguments[largest])

    def _weight(self, node: Node) -> int:
        return self._grid(self._free(node)) if isinstance(node, Apply) else 0

    def _variable(self, part: Node) -> Name:
        """An auxiliary variable for the value of a part; equal parts share one."""
        text = repr(part)  # unlike equality of nodes, it distinguishes 1, 1.0 and True
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
        """The values of each name along an axis of its own, or its only value."""
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
    """The distinct values, and the index of the value of each element of the grid."""
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
