"""Values of parameters as files have them: checked, and freed of foreign number types.

TOML may write them as a rule: ``{range = [1, 8], step = 2}`` or ``{powers = [1, 64]}``.
"""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from skipjack.core.naming import did_you_mean
from skipjack.errors import UsageError
from skipjack.sweep.files.sweep_file import Scalar

_log = logging.getLogger(__name__)

MOST_VALUES = 100_000
_FORMS = "write a list, {range = [1, 8], step = 1} or {powers = [1, 64]}"


def check_values(name: str, values: Iterable[object], where: str) -> tuple[Scalar, ...]:
    """The values of one parameter. 1, 1.0 and True are three values; repeated ones stay."""
    if not name.strip() or not _can_be_written(name):
        raise UsageError(f"{where}: a parameter is called {name!r}; give it a name")
    scalars = tuple(_scalar(name, value, where) for value in values)
    counts = Counter(json.dumps(value) for value in scalars)
    repeated = [text for text, count in counts.items() if count > 1]
    if repeated:
        _log.warning(
            "%s: %s lists %s more than once; such points are planned as often and run once",
            where,
            name,
            ", ".join(repeated),
        )
    return scalars


def check_parameter_names(
    names: Iterable[str], parameters: Mapping[str, object], what: str, where: str
) -> None:
    """Refuse names that a file gives as its parameters and has no values for."""
    missing = [name for name in names if name not in parameters]
    if missing:
        hint = did_you_mean(missing[0], parameters) if len(missing) == 1 else ""
        raise UsageError(
            f"{where}: {what} names {', '.join(missing)}, which this file has no values for; "
            f"its parameters are {', '.join(parameters) or 'none'}{hint}"
        )


def is_array(value: object) -> bool:
    """Whether it is a numpy array, or one of a library that is like numpy."""
    return hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0


def _scalar(name: str, value: Any, where: str) -> Scalar:
    if not isinstance(value, (bool, int, float, str)) and getattr(value, "ndim", None) == 0:
        value = value.item()  # numpy's numbers, where a list was computed
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where}: {name} has the value {value}; values are finite")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)  # of an enumeration, what it stands for
        if not text.isascii() and not _can_be_written(text):
            raise UsageError(f"{where}: {name} has a text that is no Unicode: {text!r}")
        return text
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    kind = "a list" if isinstance(value, list) else f"a {type(value).__name__}"
    raise UsageError(
        f"{where}: {name} has {kind} among its values ({_short(value)}); "
        "a value is a number, a text, true, false or none"
    )


def _can_be_written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


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
