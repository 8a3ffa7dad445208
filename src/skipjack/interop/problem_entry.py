"""What a line of a list means: a problem, or the reason why no kernel computes it.

`Defaults` fill in what the line leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core import Problem
from skipjack.errors import ProblemError

# Defaults for problems whose text omits a dtype, layout or direction.

ALL = "all"
"""As a direction: all directions of a problem."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values for what a text omits; a text that contradicts them is rejected.

    The direction ``all`` contradicts no text; it applies to texts without a direction.
    """

    dtype: str | None = None
    layout: str | None = None
    direction: str | None = None

    @property
    def one_direction(self) -> str | None:
        """The direction, or None if it is ``all`` or not set."""
        return None if self.direction == ALL else self.direction


NO_DEFAULTS = Defaults()


def refuse_contradiction(kind: str, stated: str, requested: str | None, where: str) -> None:
    """`ProblemError` if a text contradicts the requested value."""
    if requested is not None and requested != stated:
        raise ProblemError(
            f"command {where!r} says {stated} but the {kind} asked for is {requested}"
        )


# Problems that are valid but that no kernel computes; lists may contain them.


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The problem, in the form of a key, and the reason why no kernel computes it."""

    text: str
    reason: str


def first_reason(*reasons: str | None) -> str | None:
    """The first reason that is not empty, or None."""
    return next((reason for reason in reasons if reason), None)


Entry = Problem | NotApplicable
"""An entry of a list of problems; a line may mean several."""
