"""Checks arguments against type annotations at run time."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from skipjack.core.membership import methods
from skipjack.errors import ArgumentTypeError

P = ParamSpec("P")
T = TypeVar("T")

_WORDS: dict[object, str] = {
    bool: "True or False",
    float: "a number",
    int: "a whole number",
    str: "a text",
    Sequence[str]: "a list of texts",
}


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse arguments of other types than the signature says, in a sentence."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    hints: dict[str, Any] = {}

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> T:
        if not hints:  # a class has its name only when its methods are there
            hints.update(typing.get_type_hints(function))
        for name, value in (*zip(names, given, strict=False), *named.items()):
            if name in hints and not fits(value, hints[name]):
                raise ArgumentTypeError(f"{name} is {value!r}; give {_in_words(hints[name])}")
        return function(*given, **named)

    return call


def _in_words(wanted: Any) -> str:
    several = typing.get_origin(wanted) in (typing.Union, types.UnionType)
    kinds = [kind for kind in typing.get_args(wanted) if kind is not types.NoneType]
    each = kinds if several else [wanted]
    return " or ".join(map(_kind_in_words, each))


def _kind_in_words(kind: Any) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    if typing.get_origin(kind) is Mapping:
        names, values = map(_in_words, typing.get_args(kind))
        return f"a dictionary, each key {names} and each value {values}"
    return getattr(kind, "__name__", str(kind))


def fits(value: object, wanted: Any) -> bool:
    """Whether a value is of an annotated type; what lies in containers is looked at, too.

    True is no number here, though Python takes it for 1.
    """
    if wanted is Any:
        return True
    kind, parts = typing.get_origin(wanted), typing.get_args(wanted)
    if kind in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if kind is tuple:
        if not isinstance(value, tuple):
            return False
        each = parts[:1] * len(value) if parts[1:] == (...,) else parts
        return len(each) == len(value) and all(map(fits, value, each))
    if kind is Sequence:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return False
        return all(fits(one, parts[0]) for one in value)
    if kind is Mapping:
        return isinstance(value, Mapping) and all(
            fits(key, parts[0]) and fits(one, parts[1]) for key, one in value.items()
        )
    if kind is Callable:
        return callable(value)
    if kind is np.ndarray:
        return isinstance(value, np.ndarray | np.generic)  # a sum over all axes is a scalar
    if isinstance(value, bool):
        return wanted in (bool, object)
    if wanted is float:
        return isinstance(value, float | int)
    if getattr(wanted, "_is_protocol", False):
        return all(callable(getattr(value, name, None)) for name in methods(wanted))
    return not isinstance(wanted, type) or isinstance(value, wanted)
