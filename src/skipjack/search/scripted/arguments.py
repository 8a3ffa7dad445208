"""Arguments of searchers: taken as they are meant, or refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skipjack.errors import UsageError
from skipjack.search.scripted.contract import plain


def check_callable(function: object, what: str) -> None:
    """Refuse what cannot be called where a function is meant."""
    if not callable(function):
        raise UsageError(f"{what} must be a function, not {function!r}")


def whole_number(value: object, what: str) -> int:
    """An int from what a user gave as one; numpy's integers are, floats and bools are not."""
    index = getattr(value, "__index__", None)
    if isinstance(value, bool) or index is None:
        raise UsageError(f"{what} must be a whole number, not {value!r}")
    number: int = index()
    return number


def listed(values: object, name: str, owner: str) -> tuple[Any, ...]:
    """The values of a parameter, from anything that has an order; a text is not a list."""
    if isinstance(values, str | bytes | Mapping | set | frozenset) or not isinstance(
        values, Iterable
    ):
        raise UsageError(f"{owner} needs a list of values for {name!r}, not {values!r}")
    return tuple(plain(value) for value in values)
