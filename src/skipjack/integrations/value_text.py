"""The text of a constant, the same in every process; what has no such text has none here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def value_text(value: Any) -> str | None:
    """Of numbers, text and Triton's types, and of tuples and sets of these; else None."""
    value = unwrap(value)
    if isinstance(value, _PLAIN):
        return repr(value)
    if type(value).__name__ == "dtype":
        return str(value)
    if isinstance(value, tuple):
        return _joined(map(value_text, value), "()")
    if isinstance(value, frozenset):  # its order is another one in every process
        return _joined(sorted(map(value_text, value), key=str), "{}")
    return None


def unwrap(value: Any) -> Any:
    """What stands in a ``tl.constexpr``."""
    return getattr(value, "value", value) if type(value).__name__ == "constexpr" else value


def _joined(texts: Iterable[str | None], brackets: str) -> str | None:
    known = list(texts)
    if any(text is None for text in known):
        return None
    return f"{brackets[0]}{', '.join(map(str, known))}{brackets[1]}"
