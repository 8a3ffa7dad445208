"""The content of a sweep file, checks of its values, and the line of a mistake in it."""

from __future__ import annotations

import json
import logging
import math
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skipjack.core import did_you_mean
from skipjack.errors import ForeignError, SkipjackError, UsageError
from skipjack.search import SearcherInterface, Stats

# The line of a user's file that caused an error: one sentence instead of a traceback.


def line_of(error: BaseException, path: Path) -> int | None:
    """The innermost line of `path` in the traceback of an exception or of its cause."""
    inner = line_of(error.__cause__, path) if error.__cause__ else None
    frames = traceback.extract_tb(error.__traceback__)
    lines = (frame.lineno for frame in reversed(frames) if frame.filename == str(path))
    return inner or next(lines, None)


def location(path: Path, line: int | None) -> str:
    """``tune.py:12``, or the file alone."""
    return f"{path}:{line}" if line else str(path)


@contextmanager
def locating_errors(path: Path, what: str, line: int | None = None) -> Iterator[None]:
    """Turn exceptions of a user's code into a message with file and line.

    `line` is used for exceptions whose traceback does not contain the file. A `SkipjackError` keeps
    its type and message, which the location precedes.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        where = location(path, line_of(error, path) or line)
        text = " ".join(str(error).split())
        if not isinstance(error, SkipjackError):
            said = f"{type(error).__name__}: {text}" if text else type(error).__name__
            raise ForeignError(f"{where}: {what} raised {said}") from error
        if str(error).startswith(str(path)):
            raise
        raise type(error)(f"{where}: {error}") from error


# The content of a sweep file, in any of the three formats.

ALL = "all"
"""The search that runs every combination, in the file's order."""

Scalar = bool | int | float | str | None
"""The type of parameter values."""

IsValid = Callable[[Mapping[str, Any]], object]
"""Given the whole config (base and point), returns whether it may be run."""
Synthetic = Callable[[Mapping[str, Any]], Stats]
"""Given a point, returns synthetic results, for dry runs of searches."""


@dataclass(frozen=True, slots=True)
class SweepFile:
    """The parameters, hooks and settings of a sweep file."""

    path: Path
    parameters: Mapping[str, tuple[Scalar, ...]]
    """Values by name, in the order of declaration."""
    no_rebuild: tuple[str, ...] | None = None
    """Parameters whose change needs no new build; None: every change needs one."""
    is_valid: IsValid | None = None
    """`META_is_config_valid`, or all constraints of a TOML file."""
    search: Callable[[], SearcherInterface] | None = None
    """`META_search_callback` in any of its forms; None: all combinations of the values."""
    synthetic: Synthetic | None = None
    """`META_get_synthetic`."""
    digest: str = ""
    """Digest of the file's content."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line on which each parameter is defined, if known."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Options of a TOML file, by the names of command-line options."""

    @property
    def name(self) -> str:
        """The name in reports."""
        return self.path.stem

    def where(self, parameter: str) -> str:
        """``tune.py:12``, or only the file if the line is not known."""
        return location(self.path, self.lines.get(parameter))


# Values of parameters: checked, and converted from number types of other libraries.
#
# TOML may define them by a rule: ``{range = [1, 8], step = 2}`` or ``{powers = [1, 64]}``.

_log = logging.getLogger(__name__)

MOST_VALUES = 100_000
_FORMS = "write a list, {range = [1, 8], step = 1} or {powers = [1, 64]}"


def check_values(name: str, values: Iterable[object], where: str) -> tuple[Scalar, ...]:
    """Check the values of a parameter. 1, 1.0 and True are different values; duplicates stay."""
    if not name.strip() or not _can_be_written(name):
        raise UsageError(f"{where}: {name!r} is not a valid parameter name; rename it")
    scalars = tuple(_scalar(name, value, where) for value in values)
    counts = Counter(json.dumps(value) for value in scalars)
    repeated = [text for text, count in counts.items() if count > 1]
    if repeated:
        _log.warning(
            "%s: %s lists %s more than once; repeated points are planned but run only once",
            where,
            name,
            ", ".join(repeated),
        )
    return scalars


def check_parameter_names(
    names: Iterable[str], parameters: Mapping[str, object], what: str, where: str
) -> None:
    """Raise `UsageError` for names that are not parameters of the file."""
    missing = [name for name in names if name not in parameters]
    if missing:
        hint = did_you_mean(missing[0], parameters) if len(missing) == 1 else ""
        raise UsageError(
            f"{where}: {what} names {', '.join(missing)}, for which this file has no values; "
            f"its parameters are {', '.join(parameters) or 'none'}{hint}"
        )


def is_array(value: object) -> bool:
    """Whether a value is an array of NumPy or of a similar library."""
    return hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0


def _scalar(name: str, value: Any, where: str) -> Scalar:
    if not isinstance(value, (bool, int, float, str)) and getattr(value, "ndim", None) == 0:
        value = value.item()  # a number of NumPy
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where}: {name} has the value {value}; values must be finite")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)  # the value of an enumeration
        if not text.isascii() and not _can_be_written(text):
            raise UsageError(f"{where}: {name} has a string that is not valid Unicode: {text!r}")
        return text
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    kind = "a list" if isinstance(value, list) else f"a {type(value).__name__}"
    raise UsageError(
        f"{where}: {name} has {kind} among its values ({_short(value)}); "
        "a value must be a number, a string, true, false or none"
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
    """The values of a rule, including the end if a step reaches it exactly."""
    known = ("range", "step") if "range" in rule else ("powers", "of")
    for key in rule:
        if key not in known:
            hint = did_you_mean(key, ("range", "step", "powers", "of"))
            raise UsageError(f"{where}: {name} has the key {key!r}{hint or f'; {_FORMS}'}")
    if known[0] not in rule:
        raise UsageError(f"{where}: {name} has neither range nor powers; {_FORMS}")
    first, last = _ends(name, rule[known[0]], where)
    if "range" in rule:
        return _range(name, first, last, rule.get("step"), where)
    return _powers(name, first, last, rule.get("of", 2), where)


def _ends(name: str, ends: object, where: str) -> tuple[float, float]:
    if isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends)):
        return ends[0], ends[1]
    raise UsageError(f"{where}: {name} has the range {ends!r}; write two numbers, such as [1, 8]")


def _range(name: str, first: float, last: float, step: Any, where: str) -> list[float]:
    if step is None:
        step = 1 if last >= first else -1
    if not _is_number(step) or not step or (last - first) * step < 0:
        raise UsageError(f"{where}: {name} cannot go from {first} to {last} in steps of {step!r}")
    # The tolerance lets 0.1, 0.2, 0.3 reach an end of 0.3.
    count = math.floor((last - first) / step + 1e-9) + 1
    _check_count(name, count, where)
    if all(isinstance(number, int) for number in (first, step)):
        return [first + index * step for index in range(count)]
    return [round(first + index * step, 12) for index in range(count)]


def _powers(name: str, first: float, last: float, factor: Any, where: str) -> list[float]:
    if not _is_number(factor) or factor <= 1 or first <= 0 or last < first:
        raise UsageError(
            f"{where}: {name} cannot go from {first} to {last} by factors of {factor!r}; "
            "the factor must be above 1, and the first value above 0"
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
