"""Checks of plug-ins and arguments: members of protocols, and values against annotations."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from skipjack.errors import ArgumentTypeError, UsageError, foreign_code

# Check of the members of plug-ins when they are registered, not when a member is first used.


def check_members(kind: str, thing: object, protocol: type) -> None:
    """`UsageError` if a member of the protocol is missing or a method takes other arguments.

    Attributes for which the protocol has a default may be missing (see `default_attributes`). A
    method that is merely inherited from the protocol counts as missing.
    """
    if isinstance(thing, type):
        raise UsageError(
            f"{kind} {thing.__name__} is a class; register an instance: "
            f"register({thing.__name__}())"
        )
    defaulted = default_attributes(protocol)
    for name, expected in _members(protocol).items():
        with foreign_code(f"{name} of {plugin_label(kind, thing)}"):
            there = hasattr(thing, name) or name in defaulted
            there = there and not _is_inherited(thing, name, expected)
        if not there:
            raise UsageError(f"{plugin_label(kind, thing)} has no {name}: {_how(name, expected)}")
        if isinstance(expected, FunctionType):
            _check_method(kind, thing, name, expected)


def plugin_label(kind: str, thing: object) -> str:
    """The plug-in for messages: ``operation 'maxpool' in maxpool.py``."""
    name = getattr(thing, "name", type(thing).__name__)
    try:
        return f"{kind} {name!r} in {Path(inspect.getfile(type(thing))).name}"
    except (TypeError, OSError):
        return f"{kind} {name!r}"


def has_any_method(thing: object, protocol: type, beyond: type) -> bool:
    """Whether it has a method that `protocol` adds to `beyond`, the protocol it extends."""
    extended = _members(beyond)
    return any(
        callable(getattr(thing, name, None)) and not _is_inherited(thing, name, expected)
        for name, expected in _members(protocol).items()
        if name not in extended
    )


def default_attributes(protocol: type) -> dict[str, object]:
    """The default values of attributes in a protocol of Skipjack and those that it extends."""
    return {
        name: vars(one)[name]
        for one in reversed(protocol.__mro__)
        if _is_ours(one)
        for name in vars(one).get("__annotations__", ())
        if name in vars(one)
    }


def protocol_methods(protocol: type) -> dict[str, FunctionType]:
    """The methods of a protocol of Skipjack and of those that it extends."""
    members = _members(protocol).items()
    return {name: member for name, member in members if isinstance(member, FunctionType)}


def _members(protocol: type) -> dict[str, object]:
    """All members of the protocol and those that it extends, in order of definition."""
    found: dict[str, object] = {}
    for one in reversed(protocol.__mro__):
        if _is_ours(one):
            found |= dict.fromkeys(vars(one).get("__annotations__", ()))
            found |= {
                name: value
                for name, value in vars(one).items()
                if not name.startswith("_") and isinstance(value, FunctionType | property)
            }
    return found


def _is_ours(one: type) -> bool:
    return getattr(one, "_is_protocol", False) and one.__module__.startswith("skipjack.")


def _is_inherited(thing: object, name: str, expected: object) -> bool:
    """Whether a method is inherited from the protocol, whose methods do nothing."""
    return isinstance(expected, FunctionType) and getattr(type(thing), name, None) is expected


def _how(name: str, expected: object) -> str:
    if isinstance(expected, FunctionType):
        return f"write def {name}({', '.join(inspect.signature(expected).parameters)})"
    return "add it as an attribute or a property"


def _check_method(kind: str, thing: object, name: str, expected: FunctionType) -> None:
    method = getattr(thing, name)
    if not callable(method):
        raise UsageError(
            f"{plugin_label(kind, thing)}: {name} is not a method; {_how(name, expected)}"
        )
    parameters = list(inspect.signature(expected).parameters)[1:]
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return  # a C function without a signature
    try:
        signature.bind(*parameters)
    except TypeError:
        raise UsageError(
            f"{plugin_label(kind, thing)}: {name} takes ({', '.join(signature.parameters)}); "
            f"{_how(name, expected)}"
        ) from None


# Checks of arguments against type annotations at run time.

P = ParamSpec("P")
T = TypeVar("T")

_TYPE_NAMES: dict[object, str] = {
    bool: "True or False",
    float: "a number",
    int: "a whole number",
    str: "a string",
    Sequence[str]: "a list of strings",
}


def type_checked(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that arguments of wrong types raise `ArgumentTypeError`."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    hints: dict[str, Any] = {}

    @wraps(function)
    def call(*positional: P.args, **named: P.kwargs) -> T:
        if not hints:  # while a class is being defined its name cannot be resolved
            hints.update(typing.get_type_hints(function))
        for name, value in (*zip(names, positional, strict=False), *named.items()):
            if name in hints and not matches_type(value, hints[name]):
                raise ArgumentTypeError(f"{name} is {value!r}; give {_in_words(hints[name])}")
        return function(*positional, **named)

    return call


def _in_words(expected: Any) -> str:
    several = typing.get_origin(expected) in (typing.Union, types.UnionType)
    kinds = [kind for kind in typing.get_args(expected) if kind is not types.NoneType]
    each = kinds if several else [expected]
    return " or ".join(map(_kind_in_words, each))


def _kind_in_words(kind: Any) -> str:
    if kind in _TYPE_NAMES:
        return _TYPE_NAMES[kind]
    if typing.get_origin(kind) is Mapping:
        names, values = map(_in_words, typing.get_args(kind))
        return f"a dictionary, each key {names} and each value {values}"
    return getattr(kind, "__name__", str(kind))


def matches_type(value: object, expected: Any) -> bool:
    """Whether a value is of an annotated type; the elements of containers are checked as well.

    True does not count as a number, although ``bool`` is a subclass of ``int``.
    """
    if expected is Any:
        return True
    kind, parts = typing.get_origin(expected), typing.get_args(expected)
    if kind in (typing.Union, types.UnionType):
        return any(matches_type(value, part) for part in parts)
    if kind is tuple:
        if not isinstance(value, tuple):
            return False
        each = parts[:1] * len(value) if parts[1:] == (...,) else parts
        return len(each) == len(value) and all(map(matches_type, value, each))
    if kind is Sequence:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return False
        return all(matches_type(one, parts[0]) for one in value)
    if kind is Mapping:
        return isinstance(value, Mapping) and all(
            matches_type(key, parts[0]) and matches_type(one, parts[1])
            for key, one in value.items()
        )
    if kind is Callable:
        return callable(value)
    if kind is np.ndarray:
        return isinstance(value, np.ndarray | np.generic)  # a sum over all axes is a scalar
    if isinstance(value, bool):
        return expected in (bool, object)
    if expected is float:
        return isinstance(value, float | int)
    if getattr(expected, "_is_protocol", False):
        return all(callable(getattr(value, name, None)) for name in protocol_methods(expected))
    return not isinstance(expected, type) or isinstance(value, expected)
