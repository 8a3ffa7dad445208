"""Laying a point over a config: by names, or into nested ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def overlay(
    base: Mapping[str, Any], point: Mapping[str, Any], *, nested: bool = False
) -> dict[str, Any]:
    """A new dict: `base` with the names of `point` set. Neither of the two is changed.

    Flat, a name replaces whatever was under it. Nested, an object is laid over an object name by
    name, so that a point can reach into a part of the config and leave the rest of it.
    """
    result = {name: _copied(value) for name, value in base.items()}
    for name, value in point.items():
        under = result.get(name)
        if nested and isinstance(under, dict) and isinstance(value, Mapping):
            result[name] = overlay(under, value, nested=True)
        else:
            result[name] = _copied(value)
    return result


def _copied(value: Any) -> Any:
    """A copy of the containers that JSON has, so that a hook may scribble on what it is given."""
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
