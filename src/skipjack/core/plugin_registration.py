"""Registration of plug-ins: valid and unknown names, and methods whose errors name the plug-in."""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Callable, Container, Iterable, Sequence
from difflib import get_close_matches
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

from skipjack.core.plugin_checks import (
    default_attributes,
    matches_type,
    plugin_label,
    protocol_methods,
)
from skipjack.core.problem import Problem, excerpt
from skipjack.errors import ForeignError, UsageError, foreign_code

# Names of registered operations, solvers and searchers, and suggestions for unknown names.

_VALID_NAME = re.compile(r"[a-z][a-z0-9_]*")


def check_new_name(kind: str, name: object, taken: Container[str]) -> None:
    """`UsageError` if a name cannot be written on a command line or is taken."""
    if not isinstance(name, str) or not _VALID_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name for {_article(kind)}; "
            "use lower-case letters, digits and underscores"
        )
    if name in taken:
        raise UsageError(
            f"{_article(kind)} {name!r} exists already; register yours under another name"
        )


def closest_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Known names that may have been meant, the likeliest first: those that start with `name`,
    then those with a similar spelling."""
    names = list(known)
    longer = [each for each in names if len(name) > 1 and each.startswith(name)]
    begun = get_close_matches(name, longer, count, cutoff=0.0)
    alike = get_close_matches(name, names, count, cutoff=0.6)
    return list(dict.fromkeys((*begun, *alike)))[:count]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean depth?``, or an empty string."""
    close = closest_names(name, known, 3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


# Errors and wrong results of plug-in methods, reported with the name of the plug-in.
#
# A registered object keeps its identity and its state. Its class is replaced by a derived class
# that checks calls of the methods that Skipjack's protocols describe.

P = ParamSpec("P")
T = TypeVar("T")

_KEPT = ("__module__", "__qualname__", "__doc__")
"""Attributes that identify a class in messages and in the identities of builds."""
_UNGUARDED = "_unguarded"


def guard_methods(kind: str, thing: object, protocols: Sequence[type]) -> None:
    """From now on, errors of methods of these protocols name the method and the problem.

    Attributes that the object lacks get the default of the protocol, if it has one.
    """
    expected = {name: method for one in protocols for name, method in protocol_methods(one).items()}
    own = type(thing)

    def look_up(self: object, name: str) -> object:
        value = own.__getattribute__(self, name)
        if name in expected and callable(value):
            return _guarded(f"{name} of {plugin_label(kind, self)}", value, expected[name])
        return value

    members = {name: getattr(own, name) for name in _KEPT}
    attributes = {name: one for each in protocols for name, one in default_attributes(each).items()}
    members |= {name: one for name, one in attributes.items() if not hasattr(thing, name)}
    members |= {"__slots__": (), "__getattribute__": look_up}
    derived = types.new_class(own.__name__, (own,), {}, lambda body: body.update(members))
    object.__setattr__(thing, "__class__", derived)


def _guarded(
    name: str, method: Callable[..., object], expected: types.FunctionType
) -> Callable[..., object]:
    @wraps(method)
    def call(*arguments: Any, **named: Any) -> object:
        def what() -> str:
            return f"{name}{_about((*arguments, *named.values()))}"

        with foreign_code(what):
            value = method(*arguments, **named)
            right = matches_type(value, _result_type(expected))
            right = right and not (isinstance(value, float) and math.isnan(value))
        if not right:
            raise ForeignError(
                f"{name} returned {excerpt(repr(value))}{_about((*arguments, *named.values()))}; "
                f"its result must be {expected.__annotations__['return']}"
            )
        return value

    vars(call)[_UNGUARDED] = method
    return call


def unguarded(method: Callable[P, T]) -> Callable[P, T]:
    """The method without its guard, for timed calls after a guarded call has succeeded."""
    return cast("Callable[P, T]", getattr(method, _UNGUARDED, method))


@cache
def _result_type(method: types.FunctionType) -> Any:
    return typing.get_type_hints(method)["return"]


def _about(arguments: Sequence[object]) -> str:
    """`` for add:4:f32``, or the text that is being parsed if there is no problem yet."""
    found = [one.key for one in arguments if isinstance(one, Problem)]
    found += [excerpt(one) for one in reversed(arguments) if isinstance(one, str)]
    return f" for {found[0]}" if found else ""
