"""Reports errors and wrong results of plug-in methods with the plug-in's name.

An object that is registered keeps its identity and its state. Its class becomes one that is derived
from its own and looks at calls of the methods that our protocols describe.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

from skipjack.core.annotations import fits
from skipjack.core.membership import called, defaults, methods
from skipjack.core.problem import Problem, shown
from skipjack.errors import ForeignError, blaming

P = ParamSpec("P")
T = TypeVar("T")

_KEPT = ("__module__", "__qualname__", "__doc__")
"""What a class is known by, in messages and in the identities of builds."""
_UNGUARDED = "_unguarded"


def guard(kind: str, thing: object, protocols: Sequence[type]) -> None:
    """From now on, errors of these protocols' methods name the method and the problem.

    Attributes that the protocols give a default and the object lacks have that default.
    """
    wanted = {name: method for one in protocols for name, method in methods(one).items()}
    own = type(thing)

    def look_up(self: object, name: str) -> object:
        value = own.__getattribute__(self, name)
        if name in wanted and callable(value):
            return _guarded(f"{name} of {called(kind, self)}", value, wanted[name])
        return value

    members = {name: getattr(own, name) for name in _KEPT}
    attributes = {name: one for each in protocols for name, one in defaults(each).items()}
    members |= {name: one for name, one in attributes.items() if not hasattr(thing, name)}
    members |= {"__slots__": (), "__getattribute__": look_up}
    derived = types.new_class(own.__name__, (own,), {}, lambda body: body.update(members))
    object.__setattr__(thing, "__class__", derived)


def _guarded(
    name: str, method: Callable[..., object], wanted: types.FunctionType
) -> Callable[..., object]:
    @wraps(method)
    def call(*arguments: Any, **named: Any) -> object:
        def what() -> str:
            return f"{name}{_about((*arguments, *named.values()))}"

        with blaming(what):
            value = method(*arguments, **named)
            right = fits(value, _result_type(wanted))
            right = right and not (isinstance(value, float) and math.isnan(value))
        if not right:
            raise ForeignError(
                f"{name} gave {shown(repr(value))}{_about((*arguments, *named.values()))}; "
                f"its result must be {wanted.__annotations__['return']}"
            )
        return value

    vars(call)[_UNGUARDED] = method
    return call


def unguarded(method: Callable[P, T]) -> Callable[P, T]:
    """The method as its class has it: for calls that are timed, once a guarded one was right."""
    return cast("Callable[P, T]", getattr(method, _UNGUARDED, method))


@cache
def _result_type(method: types.FunctionType) -> Any:
    return typing.get_type_hints(method)["return"]


def _about(arguments: Sequence[object]) -> str:
    """``for add:4:f32``; where there is no problem yet, the text that is being parsed."""
    found = [one.key for one in arguments if isinstance(one, Problem)]
    found += [shown(one) for one in reversed(arguments) if isinstance(one, str)]
    return f" for {found[0]}" if found else ""
