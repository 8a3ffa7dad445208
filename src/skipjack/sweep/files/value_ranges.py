"""Values written as a rule: ``{range = [1, 8], step = 2}`` and ``{powers = [1, 64]}``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skipjack.errors import UsageError
from skipjack.sweep.files.blame import did_you_mean

MOST_VALUES = 100_000
_FORMS = "write a list, {range = [1, 8], step = 1} or {powers = [1, 64]}"


def expand(name: str, rule: Mapping[str, Any], where: str) -> list[float]:
    """The values of a rule; both ends belong to it where it meets them."""
    known = ("range", "step") if "range" in rule else ("powers", "of")
    for key in rule:
        if key not in known:
            hint = did_you_mean(key, ("range", "step", "powers", "of"))
            raise UsageError(f"{where}: {name} has the key {key!r}{hint or f'; {_FORMS}'}")
    if known[0] not in rule:
        raise UsageError(f"{where}: {name} says neither range nor powers; {_FORMS}")
    first, last = _ends(name, rule[known[0]], where)
    if "range" in rule:
        return _range(name, first, last, rule.get("step"), where)
    return _powers(name, first, last, rule.get("of", 2), where)


def _ends(name: str, ends: object, where: str) -> tuple[float, float]:
    if isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends)):
        return ends[0], ends[1]
    raise UsageError(f"{where}: {name} goes from {ends!r}; write its two ends as [1, 8]")


def _range(name: str, first: float, last: float, step: Any, where: str) -> list[float]:
    if step is None:
        step = 1 if last >= first else -1
    if not _is_number(step) or not step or (last - first) * step < 0:
        raise UsageError(f"{where}: {name} cannot go from {first} to {last} by steps of {step!r}")
    # A hair more, so that 0.1, 0.2, 0.3 meets an end of 0.3.
    count = math.floor((last - first) / step + 1e-9) + 1
    _check_count(name, count, where)
    if all(isinstance(number, int) for number in (first, step)):
        return [first + index * step for index in range(count)]
    return [round(first + index * step, 12) for index in range(count)]


def _powers(name: str, first: float, last: float, factor: Any, where: str) -> list[float]:
    if not _is_number(factor) or factor <= 1 or first <= 0 or last < first:
        raise UsageError(
            f"{where}: {name} cannot go from {first} to {last} by factors of {factor!r}; "
            "powers go up from above zero"
        )
    values = [first]
    while values[-1] * factor <= last:
        values.append(values[-1] * factor)
        _check_count(name, len(values), where)
    return values


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value)


def _check_count(name: str, count: int, where: str) -> None:
    if count > MOST_VALUES:
        raise UsageError(f"{where}: {name} has more than {MOST_VALUES} values; use a larger step")
