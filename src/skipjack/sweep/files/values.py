"""Values of parameters as files have them: checked, and freed of foreign number types."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from skipjack.errors import UsageError
from skipjack.sweep.files.sweep_file import Scalar

_log = logging.getLogger(__name__)


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
