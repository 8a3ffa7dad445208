"""Checks that several operations share."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from skipjack.core.problem import shown
from skipjack.errors import ProblemError


def refuse_unknown(attributes: Mapping[str, str], known: tuple[str, ...], where: str) -> None:
    """Raise for an attribute that the operation does not have."""
    for name in attributes:
        if name not in known:
            have = f"it knows {', '.join(known)}" if known else "it has none"
            raise ProblemError(f"problem {where!r}: no attribute {shown(name)!r} here, {have}")


def require_rank(shape: tuple[int, ...], rank: int, form: str, where: str) -> None:
    """Raise unless the shape has exactly this many sizes."""
    if len(shape) != rank:
        raise ProblemError(f"problem {where!r} has {len(shape)} sizes but needs {rank}: {form}")


def positive_number(attributes: Mapping[str, str], name: str, default: float, where: str) -> str:
    """The canonical text of an attribute that is a positive number."""
    text = attributes.get(name, repr(default))
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < inf:
        raise ProblemError(
            f"problem {where!r}: {name} must be a positive number, {shown(text)!r} is not"
        )
    return repr(value)
