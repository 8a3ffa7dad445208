"""The operators of expressions on single values; `skipjack.core.tabulation` applies them to arrays.

Operators never raise: the result of an impossible operation is an `Undefined` value, which
propagates. So ``b == 0 or a % b == 0`` can be computed in any order, and for all values at once.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_BITS = 1024
"""Longer integers are rejected, such as ``9**9**9``."""


@dataclass(frozen=True, slots=True)
class Undefined:
    """No value. A mistake is a type error (``"a" < 1``), anything else a matter of the values."""

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
