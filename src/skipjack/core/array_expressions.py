"""Expressions on NumPy arrays, element by element, with the same results as on single values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core.expressions import Constant, Name, Node
from skipjack.core.operators import SCALAR, Undefined

EXACT = 2**53
"""Whole numbers below this are the same in int64 and float64."""

Array = npt.NDArray[Any]


def evaluate_node(node: Node, values: Mapping[str, Any]) -> Any:
    """The value of a node where names stand for single values, or arrays that broadcast.

    Some elements may be `Undefined`.
    """
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Name):
        return values[node.name]
    return _apply(node.operator, [evaluate_node(argument, values) for argument in node.arguments])


def _apply(operator: str, arguments: Sequence[Any]) -> Any:
    """An operator on arrays that broadcast and single values, element by element."""
    if not any(isinstance(argument, np.ndarray) for argument in arguments):
        return SCALAR[operator](*arguments)
    fast = _fast(operator, arguments)
    return fast if fast is not None else _slow(operator, arguments)


def truth(values: Any) -> npt.NDArray[np.bool_]:
    """Which elements hold; one that is undefined does not."""
    array = np.asarray(values)
    if array.dtype != object:
        return array.astype(np.bool_)
    holds = np.frompyfunc(lambda value: type(value) is not Undefined and bool(value), 1, 1)
    return np.asarray(holds(array)).astype(np.bool_)


def mistake_in(values: Any) -> Undefined | None:
    """The first element that is a mistake, if there is one."""
    array = np.asarray(values)
    if array.dtype != object:
        return None
    return next((v for v in array.flat if type(v) is Undefined and v.mistake), None)


def narrow(array: Array) -> Array:
    """The same values in a dtype that computes fast, if one keeps them as they are."""
    kinds = set(map(type, array.flat))
    if kinds == {bool}:
        return array.astype(np.bool_)
    if kinds == {float}:
        return array.astype(np.float64)
    if kinds == {int} and max(map(abs, array.flat)) < EXACT:
        return array.astype(np.int64)
    return array


def _slow(operator: str, arguments: Sequence[Any]) -> Array:
    # A tuple on the right of `in` must not be spread over the elements.
    spread = [a for a in arguments if not isinstance(a, tuple)]
    fixed = [a for a in arguments if isinstance(a, tuple)]
    function = np.frompyfunc(lambda *values: SCALAR[operator](*values, *fixed), len(spread), 1)
    objects = [a.astype(object) if isinstance(a, np.ndarray) else a for a in spread]
    return narrow(np.asarray(function(*objects), dtype=object))


def _fast(operator: str, arguments: Sequence[Any]) -> Any:
    """The result by NumPy where it is sure to equal Python's, else None."""
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
    """``b i f`` for what NumPy computes as Python does, ``O`` for everything else."""
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
