"""What plug-ins register has its members: asked when it registers, not when one is missed."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import FunctionType

from skipjack.errors import UsageError, blaming


def check_members(kind: str, thing: object, protocol: type) -> None:
    """Refuse what lacks a member of the protocol, or has a method that takes something else.

    Attributes that the protocol gives a default may be missing (see `defaults`); methods that were
    only inherited from the protocol are.
    """
    if isinstance(thing, type):
        raise UsageError(
            f"{kind} {thing.__name__} is a class; register an instance: "
            f"register({thing.__name__}())"
        )
    defaulted = defaults(protocol)
    for name, wanted in _members(protocol).items():
        with blaming(f"{name} of {called(kind, thing)}"):
            there = hasattr(thing, name) or name in defaulted
            there = there and not _is_inherited(thing, name, wanted)
        if not there:
            raise UsageError(f"{called(kind, thing)} has no {name}: {_how(name, wanted)}")
        if isinstance(wanted, FunctionType):
            _check_method(kind, thing, name, wanted)


def called(kind: str, thing: object) -> str:
    """``operation 'maxpool' in maxpool.py``."""
    name = getattr(thing, "name", type(thing).__name__)
    try:
        return f"{kind} {name!r} in {Path(inspect.getfile(type(thing))).name}"
    except (TypeError, OSError):
        return f"{kind} {name!r}"


def has_any(thing: object, protocol: type, beyond: type) -> bool:
    """Whether it has a method of the protocol that the one it extends has not."""
    extended = _members(beyond)
    return any(
        callable(getattr(thing, name, None)) and not _is_inherited(thing, name, wanted)
        for name, wanted in _members(protocol).items()
        if name not in extended
    )


def defaults(protocol: type) -> dict[str, object]:
    """The attributes that a protocol of ours and those that it extends give a default."""
    return {
        name: vars(one)[name]
        for one in reversed(protocol.__mro__)
        if _is_ours(one)
        for name in vars(one).get("__annotations__", ())
        if name in vars(one)
    }


def methods(protocol: type) -> dict[str, FunctionType]:
    """The methods that a protocol of ours and those that it extends describe."""
    members = _members(protocol).items()
    return {name: member for name, member in members if isinstance(member, FunctionType)}


def _members(protocol: type) -> dict[str, object]:
    """What the protocol and those that it extends define, in the order in which they do."""
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
    """Whether it is a protocol of Skipjack."""
    return getattr(one, "_is_protocol", False) and one.__module__.startswith("skipjack.")


def _is_inherited(thing: object, name: str, wanted: object) -> bool:
    """Whether a method is the protocol's own, which does nothing."""
    return isinstance(wanted, FunctionType) and getattr(type(thing), name, None) is wanted


def _how(name: str, wanted: object) -> str:
    if isinstance(wanted, FunctionType):
        return f"write def {name}({', '.join(inspect.signature(wanted).parameters)})"
    return "add it as an attribute or a property"


def _check_method(kind: str, thing: object, name: str, wanted: FunctionType) -> None:
    method = getattr(thing, name)
    if not callable(method):
        raise UsageError(f"{called(kind, thing)}: {name} is not a method; {_how(name, wanted)}")
    parameters = list(inspect.signature(wanted).parameters)[1:]
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return  # a C function says nothing about its parameters
    try:
        signature.bind(*parameters)
    except TypeError:
        raise UsageError(
            f"{called(kind, thing)}: {name} takes ({', '.join(signature.parameters)}); "
            f"{_how(name, wanted)}"
        ) from None
