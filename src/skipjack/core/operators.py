"""The operators of expressions, on single values and on NumPy arrays, with the same results.

Operators never raise: what cannot be computed is an `Undefined` value that travels upwards like
any other. So ``b == 0 or a % b == 0`` may be computed in any order, also for all values at once.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_BITS = 1024
"""Whole numbers longer than this are refused: no ``9**9**9``."""

EXACT = 2**53
"""Whole numbers below this are the same in int64 and float64."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Undefined:
    """No value. A mistake is wrong whatever the values (``"a" < 1``); the rest is arithmetic."""

    reason: str
    mistake: bool = False


class _MistakeError(Exception):
    """An operator was given the wrong kind of value."""


def _numbers(*values: Any) -> None:
    for value in values:
        if not isinstance(value, (int, float)):
            raise _MistakeError(f"{value!r} is not a number")


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise _MistakeError(f"a number has more than {MAX_BITS} bits")
    if isinstance(value, complex):
        raise ValueError("a power is not a real number")
    return value


def _arithmetic(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*values: Any) -> Any:
        _numbers(*values)
        return _bounded(function(*values))

    return compute


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and abs(base) > 1 and base.bit_length() * exponent > MAX_BITS + base.bit_length():
        raise _MistakeError(f"a number has more than {MAX_BITS} bits")
    return base**exponent


def _order(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(left: Any, right: Any) -> Any:
        if not (isinstance(left, str) and isinstance(right, str)):
            _numbers(left, right)
        return function(left, right)

    return compute


def _gcd(left: Any, right: Any) -> int:
    if isinstance(left, float) or isinstance(right, float):
        raise _MistakeError("gcd takes whole numbers")
    return math.gcd(left, right)


def _round(value: Any, digits: Any = None) -> Any:
    if digits is not None and (isinstance(digits, float) or abs(digits) > 30):
        raise _MistakeError(f"{digits!r} is not a number of digits")
    return round(value, digits)


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*values: Any) -> Any:
        for value in values:
            if type(value) is Undefined:
                return value
        try:
            return function(*values)
        except (ArithmeticError, ValueError) as error:
            return Undefined(str(error))
        except _MistakeError as error:
            return Undefined(str(error), mistake=True)

    return compute


def _and(left: Any, right: Any) -> Any:
    return left if type(left) is Undefined or not left else right


def _or(left: Any, right: Any) -> Any:
    return left if type(left) is Undefined or left else right


def _if(condition: Any, then: Any, otherwise: Any) -> Any:
    if type(condition) is Undefined:
        return condition
    return then if condition else otherwise


BINARY = {
    "+": _arithmetic(python.add),
    "-": _arithmetic(python.sub),
    "*": _arithmetic(python.mul),
    "/": _arithmetic(python.truediv),
    "//": _arithmetic(python.floordiv),
    "%": _arithmetic(python.mod),
    "**": _arithmetic(_power),
    "==": python.eq,
    "!=": python.ne,
    "<": _order(python.lt),
    "<=": _order(python.le),
    ">": _order(python.gt),
    ">=": _order(python.ge),
    "in": lambda value, values: value in values,
    "not in": lambda value, values: value not in values,
}
UNARY = {"neg": _arithmetic(python.neg), "pos": _arithmetic(python.pos), "not": python.not_}
FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    # name: function, fewest and most arguments; min and max of more are nested by the parser
    "min": (_order(min), 2, 2),
    "max": (_order(max), 2, 2),
    "abs": (_arithmetic(abs), 1, 1),
    "int": (_arithmetic(int), 1, 1),
    "round": (_arithmetic(_round), 1, 2),
    "ceil": (_arithmetic(math.ceil), 1, 1),
    "floor": (_arithmetic(math.floor), 1, 1),
    "log2": (_arithmetic(math.log2), 1, 1),
    "gcd": (_arithmetic(_gcd), 2, 2),
}
SCALAR: dict[str, Callable[..., Any]] = {
    **{name: _strict(function) for name, function in (BINARY | UNARY).items()},
    **{name: _strict(function) for name, (function, _, _) in FUNCTIONS.items()},
    "and": _and,
    "or": _or,
    "if": _if,
}
"""Every operator on single values."""


def apply(operator: str, arguments: Sequence[Any]) -> Any:
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
