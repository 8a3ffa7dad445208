"""A problem: an operation at one shape, dtype, layout and direction, and its canonical key.

::

    operation:shape[/attribute=value]*:dtype[:layout][:direction]
    matmul:192x192x192:f32
    sum:4096x1024/axis=1:f32

This module defines only the grammar. What an operation accepts, and the defaults that a short form
omits, are defined in `skipjack.operations`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skipjack.errors import ProblemError

MAX_AXES = 32
"""The limit of NumPy before version 2."""

CALL_OPERATION = "autotune"
"""The operation name of calls of decorated kernels, which only their own program can make."""

_SHOWN = 80
_OPERATION = re.compile(r"[a-z][a-z0-9_]*")
_LETTERED = re.compile(r"([a-z])(-?\d+)", re.ASCII)
_ATTRIBUTE = re.compile(r"([a-z][a-z0-9_]*)=([A-Za-z0-9_.,+-]+)")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is computed. Create problems with `skipjack.operations.parse`, which checks them."""

    operation: str
    shape: tuple[int, ...]
    dtype: str = "f32"
    attributes: tuple[tuple[str, str], ...] = ()
    layout: str = ""
    direction: str = ""
    shape_text: str = ""

    @property
    def key(self) -> str:
        """The canonical text; parsing it returns an equal problem."""
        shape = self.shape_text or format_shape(self.shape)
        attributes = "".join(f"/{name}={value}" for name, value in self.attributes)
        tail = "".join(f":{part}" for part in (self.dtype, self.layout, self.direction) if part)
        return f"{self.operation}:{shape}{attributes}{tail}"

    def attribute(self, name: str) -> str:
        """The value of an attribute that the operation declares."""
        for have, value in self.attributes:
            if have == name:
                return value
        raise KeyError(name)

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True, slots=True)
class ProblemText:
    """The parts of a problem's text, not yet checked against the operation."""

    operation: str
    shape: str
    attributes: dict[str, str]
    suffixes: tuple[str, ...]


def excerpt(text: str) -> str:
    """The text for quotation in messages, truncated if it is long."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def split_key(text: str) -> ProblemText:
    """Split a problem key into its parts; `ProblemError` if it violates the grammar."""
    where = excerpt(text)
    head, *rest = text.strip().split(":")
    if not rest:
        raise ProblemError(f"problem {where!r} has no shape; write it as matmul:192x192x192")
    if not _OPERATION.fullmatch(head):
        raise ProblemError(f"problem {where!r} does not start with the name of an operation")
    shape, *attributes = rest[0].split("/")
    named: dict[str, str] = {}
    for attribute in attributes:
        match = _ATTRIBUTE.fullmatch(attribute)
        if not match:
            raise ProblemError(
                f"problem {where!r}: {excerpt(attribute)!r} is not of the form name=value "
                "with a lower-case name"
            )
        if match[1] in named:
            raise ProblemError(f"problem {where!r} gives the attribute {excerpt(match[1])} twice")
        named[match[1]] = match[2]
    return ProblemText(head, shape, named, tuple(rest[1:]))


def format_shape(shape: tuple[int, ...]) -> str:
    """``(4, 5)`` as ``4x5``."""
    return "x".join(map(str, shape))


def parse_shape(text: str, where: str) -> tuple[int, ...]:
    """``4x5`` as ``(4, 5)``; `ProblemError` unless all sizes are positive integers."""
    parts = text.split("x")
    if not all(re.fullmatch(r"-?\d+", part, re.ASCII) for part in parts):
        raise ProblemError(
            f"problem {where!r}: {excerpt(text)!r} is not a shape; "
            "write whole numbers joined by x: 64x128"
        )
    return _sizes(parts, text, where)


def parse_lettered_shape(
    text: str,
    letters: str,
    where: str,
    defaults: Mapping[str, int],
    *,
    zeros: str = "",
    brief: bool = False,
) -> tuple[tuple[int, ...], str]:
    """The sizes of ``n8c64`` in the order of `letters`, and their canonical text.

    Sizes in `zeros` may be 0. A brief text omits sizes that have their default.
    """
    pairs = _LETTERED.findall(text)
    named = dict(pairs)
    if "".join(letter + size for letter, size in pairs) != text or not named:
        example = "".join(f"{letter}8" for letter in letters if letter not in defaults or not brief)
        raise ProblemError(
            f"problem {where!r}: {excerpt(text)!r} is not a shape; "
            f"write letters with their sizes: {example}"
        )
    if len(named) < len(pairs):
        raise ProblemError(f"problem {where!r} gives a size twice in {excerpt(text)!r}")
    for letter in named:
        if letter not in letters:
            have = " ".join(letters)
            raise ProblemError(f"problem {where!r}: unknown size {letter!r}; the sizes are {have}")
    missing = [letter for letter in letters if letter not in named and letter not in defaults]
    if missing:
        raise ProblemError(f"problem {where!r} has no size {missing[0]!r} in {excerpt(text)!r}")
    found = [named.get(at) or str(defaults[at]) for at in letters]
    pairs_found = list(zip(letters, found, strict=True))
    for at, size in pairs_found:
        if at in zeros and size.startswith("-"):
            raise ProblemError(f"problem {where!r}: {at} is {excerpt(size)}; it must be at least 0")
    _sizes([size for at, size in pairs_found if at not in zeros or size.strip("0")], text, where)
    sizes = tuple(map(int, found))
    kept = [
        f"{at}{size}"
        for at, size in zip(letters, sizes, strict=True)
        if not (brief and defaults.get(at) == size)
    ]
    return sizes, "".join(kept)


def _sizes(parts: Sequence[str], text: str, where: str) -> tuple[int, ...]:
    if any(len(part) > 18 for part in parts):
        raise ProblemError(
            f"problem {where!r}: a size in {excerpt(text)!r} is larger than any memory"
        )
    if len(parts) > MAX_AXES:
        raise ProblemError(f"problem {where!r} has {len(parts)} axes; the limit is {MAX_AXES}")
    sizes = tuple(int(part) for part in parts)
    if min(sizes) <= 0:
        raise ProblemError(f"problem {where!r}: a size is {min(sizes)}; sizes must be at least 1")
    return sizes
