"""Checks of attributes and shapes that operations share."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from skipjack.core import excerpt
from skipjack.errors import ProblemError
from skipjack.reading import numbered


def refuse_unknown(attributes: Mapping[str, str], known: tuple[str, ...], where: str) -> None:
    """`ProblemError` for an attribute that the operation does not have."""
    for name in attributes:
        if name not in known:
            have = f"the attributes are {', '.join(known)}" if known else "it has no attributes"
            raise ProblemError(f"problem {where!r}: unknown attribute {excerpt(name)!r}; {have}")


def require_rank(shape: tuple[int, ...], rank: int, form: str, where: str) -> None:
    """`ProblemError` unless the shape has `rank` sizes; `form` shows how to write it."""
    if len(shape) != rank:
        raise ProblemError(
            f"problem {where!r} has {numbered(len(shape), 'size')} but needs {rank}: {form}"
        )


def positive_number(attributes: Mapping[str, str], name: str, default: float, where: str) -> str:
    """The canonical text of an attribute that is a positive number."""
    text = attributes.get(name, repr(default))
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < inf:
        raise ProblemError(
            f"problem {where!r}: {name} is {excerpt(text)!r}; it must be a positive number"
        )
    return repr(value)
