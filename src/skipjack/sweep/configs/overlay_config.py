"""Laying a point over a config: by names, or into nested ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def overlay(
    base: Mapping[str, Any], point: Mapping[str, Any], *, nested: bool = False
) -> dict[str, Any]:
    """A new dict: `base` with the names of `point` set. Neither of the two is changed.

    Flat, a name replaces whatever was under it. Nested, an object is laid over an object name by
    name, and ``model.batch`` is the ``batch`` in the object ``model``, so that a point can reach
    into a part of the config and leave the rest of it.
    """
    result = {name: _copied(value) for name, value in base.items()}
    for name, value in point.items():
        if nested and name not in result and "." in name:
            name, value = _unfolded(name, value)
        under = result.get(name)
        if nested and isinstance(under, dict) and isinstance(value, Mapping):
            result[name] = overlay(under, value, nested=True)
        else:
            result[name] = _copied(value)
    return result


def find(base: Mapping[str, Any], name: str, *, nested: bool = False) -> tuple[Any] | None:
    """What a config has under a name; nested, also one like ``model.batch``. None: it has none."""
    if name in base:
        return (base[name],)
    first, dot, rest = name.partition(".")
    if nested and dot and isinstance(base.get(first), Mapping):
        return find(base[first], rest, nested=True)
    return None


def _unfolded(name: str, value: Any) -> tuple[str, Any]:
    """``a.b.c`` as ``a`` and an object."""
    first, *rest = name.split(".")
    for part in reversed(rest):
        value = {part: value}
    return first, value


def _copied(value: Any) -> Any:
    """A copy of the containers that JSON has, so that a hook may scribble on what it is given."""
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
