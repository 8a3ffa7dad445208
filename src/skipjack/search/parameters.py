"""Parameters of searchers, given by name or as text: ``genetic:population=30,tournament=5``.

They are the arguments of a searcher's class or generator function after the first, each with a
default that says its kind. `Bounds` in an annotation say which numbers make sense.
"""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple

from skipjack.core.naming import did_you_mean
from skipjack.errors import UsageError

Value = bool | int | float | str

_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_LONGEST = 255
"""What a fleet's database has room for."""


class Bounds(NamedTuple):
    """The least and the most that a number may be."""

    least: float
    most: float


Count = Annotated[int, Bounds(1, 10_000)]
Share = Annotated[float, Bounds(0, 1)]


def split_text(text: str) -> tuple[str, dict[str, str]]:
    """A searcher's name, and what is said of its parameters."""
    name, colon, rest = text.partition(":")
    given: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = (word.strip() for word in part.partition("="))
        if not key or not equals or not value:
            raise UsageError(
                f"searcher {text!r}: write parameters as NAME:PARAMETER=VALUE,PARAMETER=VALUE, "
                "for example genetic:population=30"
            )
        if key in given:
            raise UsageError(f"searcher {text!r} gives {key} twice; leave one out")
        given[key] = value
    return name, given


def read_parameters(
    name: str, factory: Callable[..., object], given: Mapping[str, object]
) -> dict[str, Value]:
    """The values of a searcher's parameters that differ from their defaults."""
    known = {one.name: one.default for one in _after_first(factory) if type(one.default) in _KINDS}
    hints = _hints(factory)
    values = {}
    for key, value in sorted(given.items()):
        if key not in known:
            takes = f"it takes {', '.join(known) or 'none'}{did_you_mean(key, known)}"
            raise UsageError(f"searcher {name} has no parameter {key!r}; {takes}")
        notes = getattr(hints.get(key), "__metadata__", ())
        bounds = [note for note in notes if isinstance(note, Bounds)]
        values[key] = _value(value, type(known[key]), bounds, f"{key} of searcher {name}")
    return {key: value for key, value in values.items() if value != known[key]}


def spelled(name: str, values: Mapping[str, Value]) -> str:
    """Name and parameters as text, the same for the same search; it names the study."""
    said = (str(v).lower() if isinstance(v, bool) else str(v) for v in values.values())
    words = (f"{key}={value}" for key, value in zip(values, said, strict=True))
    text = name + ":" * bool(values) + ",".join(words)
    if len(text) > _LONGEST:
        raise UsageError(f"searcher {name} has {len(text)} characters of parameters; shorten them")
    return text


def check_defaults(name: str, factory: Callable[..., object]) -> None:
    """Refuse a searcher that could not be made without parameters."""
    for one in _after_first(factory):
        if one.default is one.empty:
            raise UsageError(f"parameter {one.name} of searcher {name!r} needs a default")


def _value(given: object, kind: type[Any], bounds: list[Bounds], what: str) -> Any:
    """The value that was meant, from a text or from Python."""
    value: Any = given
    if isinstance(given, str) and kind is bool:
        value = {"true": True, "false": False}.get(given.lower())
    elif isinstance(given, str) or (kind is float and type(given) is int):
        try:
            value = kind(given)
        except ValueError:
            value = None
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise UsageError(f"{what} must be {_KINDS[kind]}, not {given!r}")
    if kind is str and set(value) & set(",="):
        raise UsageError(f"{what} must be written without commas and =, not {value!r}")
    for least, most in bounds:
        if not least <= value <= most:
            raise UsageError(f"{what} must be from {least} to {most}, not {value}")
    return value


def _after_first(factory: Callable[..., object]) -> list[inspect.Parameter]:
    """The arguments beyond the context that can be given by name."""
    try:
        arguments = list(inspect.signature(factory).parameters.values())[1:]
    except (TypeError, ValueError):
        return []  # a C function says nothing about its arguments
    return [one for one in arguments if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]


def _hints(factory: Any) -> Mapping[str, Any]:
    while isinstance(factory, partial):
        factory = factory.func
    function = inspect.getattr_static(factory, "__init__") if inspect.isclass(factory) else factory
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}  # a plug-in may import names for type checkers alone
