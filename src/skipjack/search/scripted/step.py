"""Step: one value after the other, by a function, up to an end that is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from skipjack.errors import UsageError, blaming
from skipjack.search.points import Points, SearcherInterface, check_callable

MAX_VALUES = 10_000
"""A walk that is longer than this never ends, as far as a sweep is concerned."""


class Step(SearcherInterface):
    """``start``, ``update(start)`` and so on; `end` itself is not among them.

    ``Step("x", 1, 4, lambda x: x + 1)`` gives 1, 2, 3. The walk must meet `end` exactly: one that
    passes it, or comes back to where it was, is refused before its first point.
    """

    is_dynamic = False

    def __init__(
        self, search_param: str, start: Any, end: Any, update: Callable[[Any], Any]
    ) -> None:
        self.search_param = search_param
        self.start = start
        self.end = end
        self.update = update
        check_callable(update, f"update of {self}")
        if start == end:
            raise UsageError(
                f"{self} has no values, because its end is left out; "
                "give an end that differs from its start"
            )

    def __str__(self) -> str:
        return f"Step of {self.search_param!r} from {self.start!r} to {self.end!r}"

    @cached_property
    def values(self) -> Sequence[Any]:
        """All values in order; found at the first use, since `update` is a user's function."""
        values = [self.start]
        seen = _Seen(self.start)
        one_way = True
        while (value := self._after(values[-1])) != self.end:
            one_way = one_way and _is_between(values[0], values[-1], value)
            if one_way and _is_between(values[-1], self.end, value):
                raise self._refusal(f"after {values[-1]!r} comes {value!r}")
            if not seen.adds(value):
                raise self._refusal(f"after {values[-1]!r} it comes back to {value!r}")
            if len(values) == MAX_VALUES:
                raise self._refusal(f"it is at {value!r} after {MAX_VALUES} values")
            values.append(value)
        return values

    def generate(self) -> Points:
        """One point for each value."""
        for value in self.values:
            yield {self.search_param: value}

    def _after(self, value: Any) -> Any:
        with blaming(f"update of {self}"):
            return self.update(value)

    def _refusal(self, how: str) -> UsageError:
        return UsageError(
            f"{self} never meets its end: {how}; choose an end that update hits exactly"
        )


def _is_between(first: Any, middle: Any, last: Any) -> bool:
    """Whether `middle` lies on the way from `first` to `last`."""
    try:
        return bool(first <= middle < last or first >= middle > last)
    except TypeError:  # values that have no order
        return False


class _Seen:
    """Values that occurred, hashable or not."""

    def __init__(self, first: Any) -> None:
        self._hashed: set[Any] = set()
        self._listed: list[Any] = []
        self.adds(first)

    def adds(self, value: Any) -> bool:
        """Note a value; whether it is new."""
        try:
            known = value in self._hashed
            self._hashed.add(value)
        except TypeError:
            known = value in self._listed
            self._listed.append(value)
        return not known
